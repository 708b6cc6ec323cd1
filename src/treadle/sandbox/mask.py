"""Take secrets out of what is kept: values of secret-named variables, and known kinds of tokens."""

import base64
import errno
import html
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol
from urllib.parse import quote, quote_plus

from treadle.files import beneath
from treadle.ids import IN_ADDRESS


class Kind(Protocol):
    """One way in which secrets look."""

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where such secrets stand."""
        ...


class After(NamedTuple):
    """A secret after words that are known; the pattern begins there, its group is the secret."""

    words: tuple[bytes, ...]
    pattern: bytes
    folds: bool = False
    back: int = 0  # how much stands before the words

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where such secrets stand."""
        where = data.lower() if self.folds else data
        for word in self.words:
            at, done = where.find(word), 0
            while at >= 0:
                found = self._at(data, at, done)
                if found and found.lastindex:
                    yield found.span(found.lastindex)
                done = found.end() if found else done
                if not found or done > at:  # else it stood before, and there may be another here
                    at = where.find(word, max(at + 1, done))

    def _at(self, data: bytes, at: int, done: int) -> re.Match[bytes] | None:
        """Look for the pattern; few are ever needed, so none is compiled before."""
        pattern = re.compile(self.pattern, re.IGNORECASE if self.folds else re.NOFLAG)
        if not self.back:
            return pattern.match(data, at)
        return pattern.search(data, max(at - self.back, done), at + self.back + _LONGEST)


class Dense(NamedTuple):
    """Secrets that stand in a long run of certain signs; a text without such runs has none."""

    kinds: Sequence[tuple[bytes, Kind]]  # with what each holds
    signs: bytes  # for each byte a `w` if it belongs to a run
    shortest: int
    around: int  # how much of a secret may stand beside its run

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where such secrets stand."""
        runs = self._runs(data)
        for word, kind in self.kinds if runs else ():
            if word in runs:
                yield from kind.spans(data)

    def _runs(self, data: bytes) -> bytes:
        shape, run = data.translate(self.signs), b"w" * self.shortest
        found, at, done = [], shape.find(run), 0
        while at >= 0:
            end = shape.find(b" ", at)
            end = len(data) if end < 0 else end
            found.append(data[max(at - self.around, done) : end + self.around])
            done = end + self.around
            at = shape.find(run, end)
        return b"".join(found)


def signs(extra: str) -> bytes:
    """Return the table of runs that are made of letters, digits and some other signs."""
    every = map(chr, range(256))
    return "".join(
        "w" if one in extra or (one.isascii() and one.isalnum()) else " " for one in every
    ).encode()


_LONGEST = 4 << 10
# Where a word may begin: in JSON also right after an escaped newline.
_B = rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
_PEM = (
    rb"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rb"(?:(?:[^-]|-(?!----)){1,16000}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rb"|(?:(?:\s|\\+[nr]){1,8}[A-Za-z0-9+/=]{32,}){1,400}))"  # its end is missing
)
# What stands between a name and its value; a value that is no name in a program, no number, no
# path and no call, or anything in quotes that is no sentence.
_IS = rb"\\{0,3}[\"']?[ \t]{0,3}(?:=>?|:)[ \t]{0,3}"
_PLAIN = rb"[^\s\"'&,;()<>{}\[\]\\]"
_VALUE = (
    rb"(?:\\{0,3}[\"'](?![A-Za-z_. ]+[\"'\\])([^\"'\\\r\n]{6,200})(?=\\{0,3}[\"'])"
    rb"|(?![./~$\"']|https?:|(?:[A-Za-z_.]+|[0-9.]+)(?!%s))(%s{8,}))" % (_PLAIN, _PLAIN)
)
_QUOTE = rb"\\{0,3}[\"']?"
_SCHEME = rb"(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey|AWS4-HMAC-SHA256)[ \t]+"
_NAMES = (b"pass", b"pwd", b"token", b"secret", b"credential", b"auth", b"key", b"cookie", b"sig")
_NAMED = b"|".join(
    (
        rb"(?:pass(?:w(?:or)?ds?|phrase)|pwd|tokens?(?:_secret)?|credentials?|auth(?:token)?"
        rb"|secrets?(?:_?(?:access)?_?keys?)?|(?:(?<=api)|(?<=api[_-])|(?<=access)|(?<=access_)"
        rb"|(?<=account)|(?<=account_)|(?<=private_)|(?<=client-))key(?:-data)?)" + _IS + _VALUE,
        rb"auth" + _IS + _QUOTE + rb"([A-Za-z0-9+/]{7,}=)",
        rb"authorization" + _IS + _QUOTE + rb"(" + _SCHEME + rb"[^\r\n\"'\\]{6,}|[^\s\"'\\]{16,})",
        rb"cookie2?" + _IS + _QUOTE + rb"([^\s=\"'\\]{1,100}=[^\r\n\"'\\]{6,})",
        rb"(?:(?<=[?&;-])|(?<=access))(?:sig|signature|key)=([^&\s\"'<>#\\]{8,})",
    )
)


def _tokens() -> Iterator[tuple[bytes, Kind]]:
    """Yield the tokens of known makers, each with a word that stands in it."""
    for line in Path(__file__).with_name("tokens.txt").read_bytes().splitlines():
        if not line.startswith(b"#"):
            words, back, looks = line.split(None, 2)
            looks = _B + looks[1:] if looks.startswith(b"^") else looks
            for word in words.split(b","):
                yield word, After((word,), looks, back=int(back))


_KINDS: tuple[Kind, ...] = (
    Dense(tuple(_tokens()), signs("_-"), shortest=15, around=48),
    After((b"-----BEGIN ",), _PEM),
    After((b"://",), IN_ADDRESS.encode()),
    After(_NAMES, _NAMED, folds=True),
    After((b"login ",), rb"login[ \t]+\S{1,200}\s{1,3}password[ \t]+(\S{4,})"),  # .netrc
    After((b":5432:",), rb":5432:[^:\s]{1,100}:[^:\s]{1,100}:(\S{4,})"),  # .pgpass
)


MASKED = "[masked]"

_SECRET_NAMES = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|AUTH|_KEY\Z|_PAT\Z",
    re.IGNORECASE,
)
_PASSWORDS = re.compile(r"://[^\s/:@]*:([^\s/@]{8,})@")  # of proxies and registries
_SHORTEST = 8  # shorter values are words that stand in every log
_CHUNK = 1 << 20
_LINE = 20  # a line of a longer secret, such as a key, that is one by itself
_ANCHOR = 8
_INDENT = 32  # of a wrapped line
_SPECIAL = re.compile(r"[^\w@%+=:,./-]", re.ASCII)
_HEX = re.compile("%[0-9A-F]{2}")
_HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # the others stand for single bytes

_CODE = signs("+/=_-\\%")  # of base64, hex and escapes
_OVERLAP = 64 << 10  # more than any secret is long


class Mask:
    """What to take out, worked out once from an environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        values = _secrets(env)
        coded = [(form.words[0], form) for value in values for form in _coded(value)]
        self._values: list[Kind] = [form for value in values for form in _forms(value)]
        self._values += [Dense(coded, _CODE, shortest=12, around=128)] if coded else []
        self._all = [*self._values, *_KINDS]

    def text(self, text: str) -> str:
        """Return a text without secrets, and without halves of characters, which no file takes."""
        text = _HALVES.sub("\ufffd", text)
        if len(text) < _SHORTEST:
            return text
        data = text.encode(errors="surrogateescape")
        spans = _merged(_found(self._all, data))
        return b"".join(_without(data, spans)).decode(errors="surrogateescape") if spans else text

    def value(self, value: object) -> object:
        """Return a value of JSON without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list | tuple) else value

    def file(self, path: Path) -> None:
        """Rewrite a file of treadle's own without secrets."""
        self.file_in(path.parent, path.name)

    def file_in(self, folder: Path, name: str) -> list[tuple[int, int]]:
        """Rewrite a file below a folder without secrets; return where they stood, if any did.

        No link on the way to it is followed. A diff keeps what merely looks like a token: it
        must still apply.
        """
        kinds = self._values if name.endswith(".diff") else self._all
        with beneath.opened(folder, name) as stream:
            spans = _merged(_in_windows(stream, kinds))
            if spans:
                with beneath.replaced(folder, name, mode=0o644) as masked:
                    _copy(stream, spans, masked)
            return spans


def _found(kinds: Sequence[Kind], data: bytes) -> list[tuple[int, int]]:
    """Return where secrets stand; nearly always nowhere, which is known at once."""
    return [span for kind in kinds for span in kind.spans(data)]


def _in_windows(stream: BinaryIO, kinds: Sequence[Kind]) -> Iterator[tuple[int, int]]:
    """Yield where secrets stand in a file, without holding all of it."""
    end, data = 0, b""
    for at, block in _blocks(stream, 0, _size(stream)):
        data = data[-_OVERLAP:] + block if at == end else block
        end = at + len(block)
        begin = end - len(data)
        yield from ((begin + start, begin + stop) for start, stop in _found(kinds, data))


def _blocks(stream: BinaryIO, at: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield what a part of a file holds, without its holes: they may be larger than any disk."""
    while (at := _next_data(stream.fileno(), at)) < end:
        data = os.pread(stream.fileno(), min(_CHUNK, end - at), at)
        if not data:  # it has become shorter
            return
        yield at, data
        at += len(data)


def _next_data(descriptor: int, at: int) -> int:
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        return sys.maxsize if error.errno == errno.ENXIO else at


def _copy(stream: BinaryIO, spans: Sequence[tuple[int, int]], masked: BinaryIO) -> None:
    """Copy a file without its secrets; what was a hole stays one."""
    size = _size(stream)
    at = shift = 0
    for start, end in (*spans, (size, size)):
        for place, data in _blocks(stream, at, start):
            masked.seek(place + shift)
            masked.write(data)
        if start < end:
            masked.seek(start + shift)
            masked.write(MASKED.encode())
            shift += len(MASKED) - (end - start)
            at = end
    masked.truncate(size + shift)


def _size(stream: BinaryIO) -> int:
    return os.fstat(stream.fileno()).st_size


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _without(data: bytes, spans: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    at = 0
    for start, end in spans:
        yield data[at:start]
        yield MASKED.encode()
        at = end
    yield data[at:]


def _secrets(env: Mapping[str, str]) -> list[bytes]:
    """Return the values to take out, the longest first, so that none leaves its tail behind."""
    found: set[str] = set()
    for name, value in env.items():
        if _SECRET_NAMES.search(name) and len(value) >= _SHORTEST:
            found.add(value)
            found.update(line for line in value.splitlines() if len(line) >= _LINE)
        found.update(_PASSWORDS.findall(value))
    encoded = [value.encode(errors="surrogateescape") for value in found]
    return sorted(encoded, key=len, reverse=True)


def _forms(value: bytes) -> Iterator[After]:
    """Yield a value as it is, wrapped, escaped and quoted."""
    text = value.decode(errors="surrogateescape")
    yield from map(_plain, {*_escaped(text), *_quoted(text)} - {value})
    yield from _in_lines(value)


def _coded(value: bytes) -> Iterator[After]:
    """Yield a value in base64, in hex, and with every sign escaped."""
    pairs = [f"{byte:02x}" for byte in value]
    for hex_ in (pairs, [pair.upper() for pair in pairs]):
        yield from (_plain(before.join(("", *hex_)).encode()) for before in ("", "%", "\\x"))
    text = value.decode(errors="surrogateescape")
    yield _plain("".join(f"\\u{ord(sign):04x}" for sign in text).encode())
    for offset in range(3):
        full = base64.b64encode(bytes(offset) + value)
        code = full[-(-offset * 8 // 6) : (offset + len(value)) * 8 // 6]
        for variant in {code, code.translate(bytes.maketrans(b"+/", b"-_"))}:
            yield from _in_lines(variant)


def _escaped(text: str) -> Iterator[bytes]:
    """Yield what JSON and addresses make of a text, also one in the other."""
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for form in (once, once.replace("/", "\\/"), json.dumps(once)[1:-1]):
            yield form.encode(errors="surrogateescape")
    for safe in ("", "/", "!'()*/~"):
        for form in (
            quote(text, safe, errors="surrogateescape"),
            quote_plus(text, safe, errors="surrogateescape"),
        ):
            yield form.encode()
            yield _HEX.sub(lambda found: found[0].lower(), form).encode()
            yield form.replace("%", "%25").encode()


def _quoted(text: str) -> Iterator[bytes]:
    """Yield what pages, shells and programs make of a text when they show it."""
    forms = [html.escape(text), html.escape(text, quote=False), "'\"'\"'".join(text.split("'"))]
    forms += [html.escape(text).replace("&#x27;", entity) for entity in ("&#39;", "&apos;")]
    forms += [forms[3].replace("&quot;", "&#34;")]
    forms += [repr(text)[1:-1], _SPECIAL.sub(r"\\\g<0>", text)]
    for form in forms:
        yield form.encode(errors="surrogateescape")
    yield repr(text.encode(errors="surrogateescape"))[2:-1].encode()


def _plain(form: bytes) -> After:
    return After((form,), b"(%s)" % re.escape(form))


def _in_lines(code: bytes) -> Iterator[After]:
    """Yield two parts side by side: a line that is wrapped may end in one of them, not in both."""
    letters = [re.escape(code[at : at + 1]) for at in range(len(code))]
    pattern = rb"(?:\r?\n[ \t]*|\\+n)?".join(letters)
    size = min(len(code) // 2, _ANCHOR)
    for anchor in (code[:size], code[size : size * 2]):
        yield After((anchor,), b"(%s)" % pattern, back=len(code) * 2 + _INDENT)
