"""Read the fields that a file may have between two `---` lines at its top, and set single ones."""

import functools
import re
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from treadle.frontmatter import plain
from treadle.frontmatter.plain import BOM, MAX_BYTES, Block, Field, Fields, Value, find

__all__ = ["Document", "Value", "quote", "read", "set_fields"]

_SIMPLE = re.compile(r"[A-Za-z0-9_/.](?:[A-Za-z0-9_/.-]| (?=[A-Za-z0-9_/.-]))*")
_Edit = tuple[int, int, bytes]


class Document(NamedTuple):
    """The fields in their order, and every byte that follows them."""

    fields: Mapping[str, Value]
    body: bytes


@functools.lru_cache(maxsize=2)  # whoever reads a file is about to complete it
def read(data: bytes, wanted: Container[str] | None = None) -> Document:
    """Split fields and body; without a closed block that is a mapping everything is body.

    Fields that are not `wanted` may be left out.
    """
    found = _locate(data, wanted)
    if found is None:
        return Document({}, data.removeprefix(BOM))
    block, fields = found
    return Document({entry.key: entry.value for entry in fields.entries}, data[block.body :])


def set_fields(data: bytes, changes: Mapping[str, str], order: Sequence[str] = ()) -> bytes:
    """Replace values in place and put new fields behind the one that precedes them in `order`.

    A file without fields gets a block of its own; one that has nothing to change stays as it is,
    and every other byte does.
    """
    found = _locate(data)
    known = {entry.key: entry for entry in found[1].entries} if found else {}
    missing = {
        key: value
        for key, value in changes.items()
        if key not in known or known[key].value != value
    }
    if not missing:
        return data
    if found is None:
        return _with_block(data.removeprefix(BOM), changes)
    edits = [
        _replace(data, known[key], value)
        if key in known
        else _insert(data, *found, key, value, order)
        for key, value in missing.items()
    ]
    return _apply(data, edits).removeprefix(BOM)


def quote(value: str) -> str:
    """Write a value so that YAML reads exactly it."""
    if _SIMPLE.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[^ -~]", lambda sign: f"\\U{ord(sign[0]):08x}", escaped) + '"'


def _locate(data: bytes, wanted: Container[str] | None = None) -> tuple[Block, Fields] | None:
    """Return the block and its fields, or None for a file without any; FormatError if broken."""
    block = find(data)
    if block is None:
        return None
    is_long = block.end - block.start > MAX_BYTES
    fields = None if is_long else plain.read(data, block, wanted)
    if fields is None:
        # Few files need a YAML parser, and loading one takes longer than most commands.
        from treadle.frontmatter import nodes  # noqa: PLC0415  # YAML is dear to load

        if is_long:
            raise nodes.fail(f"the fields are longer than {MAX_BYTES >> 10} KiB", 1, 1)
        fields = nodes.read(data, block)
    return (block, fields) if fields else None


def _insert(
    data: bytes, block: Block, fields: Fields, key: str, value: str, order: Sequence[str]
) -> _Edit:
    line = f"{key}: {quote(value)}"
    if fields.is_flow:
        return fields.top + 1, fields.top + 1, f"{line}, ".encode()
    before = order[: order.index(key)] if key in order else ()
    present = {entry.key: entry for entry in fields.entries}
    known = [present[name] for name in before if name in present]
    place = _behind(data, known[-1], block) if known else None
    if place is None:
        place = fields.top - fields.column
    return place, place, b" " * fields.column + line.encode() + _eol(data)


def _replace(data: bytes, entry: Field, value: str) -> _Edit:
    old = data[entry.start : entry.end]
    new = quote(value).encode()
    # Behind a bare colon a space must come; a list may begin where a single value may not.
    if not old or not isinstance(entry.value, str):
        new = b"  "[: 1 if not old else 2] + new
    if old.endswith(b"\n"):
        new += _eol(data)
    return entry.start, entry.end, new


def _behind(data: bytes, entry: Field, block: Block) -> int | None:
    """Return the start of the line after a single value."""
    if not isinstance(entry.value, str):
        return None
    if data[entry.start : entry.end].endswith(b"\n"):
        return entry.end
    return min(data.index(b"\n", entry.end, block.end) + 1, block.end)


def _apply(data: bytes, edits: Sequence[_Edit]) -> bytes:
    """Make the edits; those for one place follow each other in the order given."""
    parts, position = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [data[position:start], new]
        position = end
    return b"".join([*parts, data[position:]])


def _with_block(body: bytes, changes: Mapping[str, str]) -> bytes:
    eol = _eol(body)
    lines = [b"---", *(f"{key}: {quote(value)}".encode() for key, value in changes.items()), b"---"]
    return eol.join(lines) + eol + body


def _eol(data: bytes) -> bytes:
    """Return the end of line that the file's first line has."""
    end = data.find(b"\n")
    return b"\r\n" if end > 0 and data[end - 1] == 0x0D else b"\n"
