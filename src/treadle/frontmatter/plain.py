"""Find the fields at the top of a file, and read the usual ones without a YAML parser.

It buys quick commands: loading a YAML parser takes longer than all else that `next` does.
"""

import re
from collections.abc import Callable, Container
from typing import NamedTuple

MAX_BYTES = 64 << 10
BOM = b"\xef\xbb\xbf"

Value = str | list["Value"] | dict[str, "Value"]


class Block(NamedTuple):
    """Where the fields stand between their fences; `end` is where the closing fence begins."""

    start: int
    end: int
    body: int


class Field(NamedTuple):
    """One field of the outermost mapping and where its value stands in the file."""

    key: str
    value: Value
    start: int
    end: int


class Fields(NamedTuple):
    """The outermost mapping; its first key stands at `top`, indented by `column`."""

    entries: tuple[Field, ...]
    top: int
    column: int = 0
    is_flow: bool = False


def find(data: bytes) -> Block | None:
    """Return the block between the first line and the closing fence, if the file has both."""
    start = len(BOM) if data.startswith(BOM) else 0
    first = data.find(b"\n", start) + 1
    if not first or not _is_fence(data[start:first]):
        return None
    at = first - 1
    while at := data.find(b"\n---", at) + 1:
        after = data.find(b"\n", at) + 1 or len(data)
        if _is_fence(data[at:after]):
            return Block(first, at, after)
    return None


def _is_fence(line: bytes) -> bool:
    return line.removesuffix(b"\n").removesuffix(b"\r").rstrip(b" \t") == b"---"


# Whatever YAML could read in another way (comments behind a value, tabs, signs with a meaning,
# escapes, any other indentation) is left to the parser. Compiled when it is needed.
_KEY = r"(?P<key>[A-Za-z][A-Za-z0-9_-]{0,63}):"
_PLAIN = r"[\w./(~$](?:[!-9;-~\w]|:(?=[!-~\w])| +(?=[!\"$-9;-~\w]))*"
_QUOTED = r"""'[ -&(-~]*'|"[ !#-\[\]-~]*\""""
_WORD = rf"[\w./~$](?:[\w./*~$@-]| (?=[\w./]))*|{_QUOTED}"
_LINE = (
    rf"{_KEY}(?:(?:\n(?P<deep> *)(?P<block>- (?:{_PLAIN}|{_QUOTED})"
    rf"(?:\n(?P=deep)- (?:{_PLAIN}|{_QUOTED}))*)(?=\n(?:[A-Za-z#]|\Z))"
    rf"|(?: +(?:(?P<plain>{_PLAIN})|(?P<quoted>{_QUOTED})"
    rf"|(?P<flow>\[(?: *(?:{_WORD})(?:, *(?:{_WORD}))*)? *\])"
    r"|(?P<lines>\|\n(?:  [!-~][ -~]*\n)+(?=[A-Za-z]|\Z))))?)"
    r"(?: *\r?\n|(?<=\n)))|#[ -~]*\r?\n|\r?\n"
)
_OTHER = rf"{_KEY}(?: [^\n]*)?\n(?:[ \t-][^\n]*\n|\n)*"


def read(data: bytes, block: Block, wanted: Container[str] | None = None) -> Fields | None:
    """Return the fields, or None if it takes a YAML parser to know them.

    Of fields that are not `wanted` only the key is looked at.
    """
    try:
        text = data[block.start : block.end].decode()
    except UnicodeDecodeError:
        return None
    entries: dict[str, Field] = {}
    line, other = re.compile(_LINE), re.compile(_OTHER)
    at, top = 0, len(text)
    while at < len(text):
        found = other.match(text, at) if wanted is not None else None
        if found is None or found["key"] in (wanted or ()):
            found = line.match(text, at)
            if found is None or found["key"] in entries:
                return None
            if found["key"]:
                top = top if entries else at
                entries[found["key"]] = _field(found)
        at = found.end()
    fields = Fields(tuple(entries.values()), top)
    return _in_bytes(fields, text, block.start)


def _field(line: re.Match[str]) -> Field:
    key, kind = line["key"], next((name for name in _VALUES if line[name] is not None), None)
    if kind is None:
        after = line.end("key") + 1
        return Field(key, "", after, after)
    return Field(key, _VALUES[kind](line[kind]), *line.span(kind))


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ("'", '"') else text


def _flow(text: str) -> Value:
    return [_unquoted(word) for word in re.findall(_WORD, text[1:-1])]


def _block(text: str) -> Value:
    return [_unquoted(line.partition("- ")[2]) for line in text.split("\n")]


def _lines(text: str) -> Value:
    return text[2:].replace("\n  ", "\n").removeprefix("  ")


_VALUES: dict[str, Callable[[str], Value]] = {
    **{"plain": _unquoted, "quoted": _unquoted},
    **{"flow": _flow, "block": _block, "lines": _lines},
}


def _in_bytes(fields: Fields, text: str, offset: int) -> Fields:
    """Count places in the file's bytes."""

    def place(at: int) -> int:
        return offset + (at if text.isascii() else len(text[:at].encode()))

    moved = (entry._replace(start=place(entry.start), end=place(entry.end)) for entry in fields[0])
    return Fields(tuple(moved), place(fields.top))
