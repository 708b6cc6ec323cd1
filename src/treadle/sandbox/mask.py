"""Take secrets out of what is kept: values of secret-named variables, and known kinds of tokens."""

import base64
import mmap
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

MASKED = "[masked]"

_NAMES = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|AUTH|_KEY\Z|_PAT\Z",
    re.IGNORECASE,
)
_SHORTEST = 8  # shorter values are words that stand in every log
_LONGEST_FILE = 64 << 20
_LINE = 20  # a line of a longer secret, such as a key, that is one by itself
_WRAPPED = 57  # base64 breaks its lines somewhere above this length

_SHAPES = (
    rb"\bgh[pousr]_[A-Za-z0-9]{36,}",
    rb"\bgithub_pat_[A-Za-z0-9_]{22,}",
    rb"\bglpat-[A-Za-z0-9_-]{20,}",
    rb"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9_-]{20,}",
    rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    rb"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    rb"\bAIza[0-9A-Za-z_-]{35}",
    rb"\bnpm_[A-Za-z0-9]{36}",
    rb"\bhf_[A-Za-z0-9]{30,}",
    rb"\bpypi-AgEI[A-Za-z0-9_-]{40,}",
    rb"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{1,8000}?-----END [A-Z ]*PRIVATE KEY-----",
)


class Mask:
    """What to take out, worked out once from an environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        values = _secrets(env)
        forms = [form for value in values for form in _forms(value)]
        self._values = re.compile(b"|".join(forms)) if forms else None
        self._all = re.compile(b"|".join([*forms, *_SHAPES]))

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        data = text.encode(errors="surrogateescape")
        if not self._all.search(data):
            return text
        return self._all.sub(MASKED.encode(), data).decode(errors="surrogateescape")

    def value(self, value: object) -> object:
        """Return a value of JSON without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list | tuple) else value

    def file(self, path: Path) -> None:
        """Rewrite a file without secrets; one without any is left as it is.

        A diff keeps what merely looks like a token: it must still apply.
        """
        pattern = self._values if path.suffix == ".diff" else self._all
        size = path.stat().st_size
        if pattern is None or not 0 < size <= _LONGEST_FILE:
            return
        with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ) as data:
            spans = [match.span() for match in pattern.finditer(data)]
            kept = b"".join(_without(data, spans)) if spans else b""
        if spans:
            path.unlink()  # its owner may have taken the right to write away
            path.write_bytes(kept)


def _without(data: mmap.mmap, spans: Iterable[tuple[int, int]]) -> Iterator[bytes]:
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


def _forms(value: bytes) -> Iterator[bytes]:
    """Yield patterns of a value: as it is, escaped in JSON or an address, in base64 or hex."""
    yield b"".join(map(_character, value.decode(errors="surrogateescape")))
    for offset in range(3):
        full = base64.b64encode(bytes(offset) + value)
        text = full[-(-offset * 8 // 6) : (offset + len(value)) * 8 // 6]
        for variant in {text, text.translate(bytes.maketrans(b"+/", b"-_"))}:
            letters = [re.escape(variant[at : at + 1]) for at in range(len(variant))]
            between = rb"(?:\r?\n|\\+n)?" if len(variant) > _WRAPPED else b""
            yield between.join(letters)
    yield b"(?i:" + value.hex().encode() + b")"


def _character(character: str) -> bytes:
    """Return the pattern of one character in any of its escaped forms."""
    raw = character.encode(errors="surrogateescape")
    if character.isascii() and (character.isalnum() or character in "-_"):
        return re.escape(raw)
    forms = [re.escape(raw), b"(?i:" + b"".join(b"%%%02x" % byte for byte in raw) + b")"]
    named = {"\n": b"n", "\t": b"t", "\r": b"r"}.get(character, raw)
    forms.append(rb"\\+" + re.escape(named))
    units = character.encode("utf-16-be", errors="surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    forms.append(b"(?i:" + b"".join(rb"\\+u" + pair.hex().encode() for pair in pairs) + b")")
    forms += [rb"\+"] if character == " " else []
    return b"(?:" + b"|".join(forms) + b")"
