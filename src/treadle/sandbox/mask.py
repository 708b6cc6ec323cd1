"""Take secrets out of what is kept: values of secret-named variables, and known kinds of tokens."""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote, quote_plus

from treadle.files import beneath

MASKED = "[masked]"

_NAMES = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|AUTH|_KEY\Z|_PAT\Z",
    re.IGNORECASE,
)
_SHORTEST = 8  # shorter values are words that stand in every log
_LONGEST_FILE = 64 << 20
_CHUNK = 1 << 20
_LINE = 20  # a line of a longer secret, such as a key, that is one by itself
_ANCHOR = 8
_HEX = re.compile("%[0-9A-F]{2}")
_HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # the others stand for single bytes

_OVERLAP = 64 << 10  # more than any secret is long

# What a token begins with, and what all of it looks like; without its group it is none, and what
# was read is passed over, so that nobody can make us read the same again and again.
_SHAPES = (
    *((b"gh%c_" % kind, rb"gh._[A-Za-z0-9]{36,}") for kind in b"pousr"),
    (b"github_pat_", rb"github_pat_[A-Za-z0-9_]{22,}"),
    (b"glpat-", rb"glpat-[A-Za-z0-9_-]{20,}"),
    (b"sk-", rb"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9_-]{20,}"),
    (b"AKIA", rb"\bAKIA[0-9A-Z]{16}\b"),
    (b"ASIA", rb"\bASIA[0-9A-Z]{16}\b"),
    (b"xox", rb"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    (b"AIza", rb"AIza[0-9A-Za-z_-]{35}"),
    (b"npm_", rb"npm_[A-Za-z0-9]{36}"),
    (b"hf_", rb"\bhf_[A-Za-z0-9]{30,}"),
    (b"pypi-AgEI", rb"pypi-AgEI[A-Za-z0-9_-]{40,}"),
    (b"eyJ", rb"eyJ[A-Za-z0-9_-]{10,}(\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})?"),
    (
        b"-----BEGIN ",
        rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-(?!----)){1,8000}+"
        rb"-----END [A-Z ]*PRIVATE KEY-----",
    ),
)


class _Sign(NamedTuple):
    """A secret in one of its forms; where `anchor` stands, `pattern` is looked for around it.

    Without a pattern, the anchor is all of it. Few patterns are ever needed, so none is
    compiled before.
    """

    anchor: bytes
    pattern: bytes = b""
    reach: int = 0

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where this secret stands."""
        at = data.find(self.anchor)
        while at >= 0:
            start, end = self._around(data, at)
            if start < end:
                yield start, end
            at = data.find(self.anchor, max(at + 1, end))

    def _around(self, data: bytes, at: int) -> tuple[int, int]:
        if not self.pattern:
            return at, at + len(self.anchor)
        pattern = re.compile(self.pattern)
        if self.reach:
            found = pattern.search(data, max(at - self.reach, 0), at + self.reach)
        else:
            found = pattern.match(data, at)
        if not found:
            return 0, 0
        return found.span() if None not in found.groups() else (found.end(), found.end())


class Mask:
    """What to take out, worked out once from an environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._values = [sign for value in _secrets(env) for sign in _forms(value)]
        self._all = [*self._values, *(_Sign(anchor, pattern) for anchor, pattern in _SHAPES)]

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
            return {key: self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list | tuple) else value

    def file(self, path: Path) -> None:
        """Rewrite a file of treadle's own without secrets."""
        self.file_in(path.parent, path.name)

    def file_in(self, folder: Path, name: str) -> None:
        """Rewrite a file below a folder without secrets; one without any is left as it is.

        No link on the way to it is followed. A diff keeps what merely looks like a token: it
        must still apply.
        """
        signs = self._values if name.endswith(".diff") else self._all
        with beneath.opened(folder, name) as stream:
            if not 0 < os.fstat(stream.fileno()).st_size <= _LONGEST_FILE:
                return
            spans = _merged(_in_windows(stream, signs))
            stream.seek(0)
            data = stream.read(_LONGEST_FILE) if spans else b""
        if spans:
            beneath.write(folder, name, b"".join(_without(data, spans)), mode=0o644)


def _found(signs: Sequence[_Sign], data: bytes) -> list[tuple[int, int]]:
    """Return where secrets stand; nearly always nowhere, which is known at once."""
    return [span for sign in signs if sign.anchor in data for span in sign.spans(data)]


def _in_windows(stream: BinaryIO, signs: Sequence[_Sign]) -> Iterator[tuple[int, int]]:
    """Yield where secrets stand in a file, without holding all of it."""
    at, data = 0, b""
    while more := stream.read(_CHUNK):
        at += max(len(data) - _OVERLAP, 0)
        data = data[-_OVERLAP:] + more
        yield from ((at + start, at + end) for start, end in _found(signs, data))


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
        if _NAMES.search(name) and len(value) >= _SHORTEST:
            found.add(value)
            found.update(line for line in value.splitlines() if len(line) >= _LINE)
    encoded = [value.encode(errors="surrogateescape") for value in found]
    return sorted(encoded, key=len, reverse=True)


def _forms(value: bytes) -> Iterator[_Sign]:
    """Yield a value as it is, escaped in JSON or an address, in base64 and in hex."""
    literals = {value, *_escaped(value.decode(errors="surrogateescape"))}
    literals |= {value.hex().encode(), value.hex().upper().encode()}
    yield from map(_Sign, literals)
    for offset in range(3):
        full = base64.b64encode(bytes(offset) + value)
        code = full[-(-offset * 8 // 6) : (offset + len(value)) * 8 // 6]
        for variant in {code, code.translate(bytes.maketrans(b"+/", b"-_"))}:
            yield from _base64(variant)


def _escaped(text: str) -> Iterator[bytes]:
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


def _base64(code: bytes) -> Iterator[_Sign]:
    """Yield the two halves: a line of wrapped base64 may end in one of them, not in both."""
    letters = [re.escape(code[at : at + 1]) for at in range(len(code))]
    pattern = rb"(?:\r?\n|\\+n)?".join(letters)
    size = min(len(code) // 2, _ANCHOR)
    for anchor in (code[:size], code[-size:]):
        yield _Sign(anchor, pattern, len(code) * 2)
