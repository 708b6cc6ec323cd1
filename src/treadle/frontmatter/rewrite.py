"""Set single fields of a file and leave every other byte as it was."""

import re
from collections.abc import Mapping, Sequence

from treadle.frontmatter.block import BOM, Block, Entry, Fields
from treadle.frontmatter.parse import locate, read

_PLAIN = re.compile(r"[A-Za-z0-9_/.](?:[A-Za-z0-9_/.-]| (?=[A-Za-z0-9_/.-]))*")


def set_fields(data: bytes, changes: Mapping[str, str], order: Sequence[str] = ()) -> bytes:
    """Replace values in place and put new fields behind the one that precedes them in `order`.

    A file without fields gets a block of its own; one that has nothing to change stays as it is.
    """
    known = read(data).fields
    if changes.items() <= known.items():
        return data
    found = locate(data)
    if found is None:
        return _with_block(data.removeprefix(BOM), changes)
    block, fields = found
    present = {entry.key: entry for entry in fields.entries}
    edits = [
        _edit(data, block, fields, present, key, value, order)
        for key, value in changes.items()
        if key not in present or present[key].value != value
    ]
    return _apply(data, edits).removeprefix(BOM)


Edit = tuple[int, int, bytes]


def _edit(
    data: bytes,
    block: Block,
    fields: Fields,
    present: Mapping[str, Entry],
    key: str,
    value: str,
    order: Sequence[str],
) -> Edit:
    if key in present:
        return _replace(data, present[key], value)
    line = f"{key}: {quote(value)}"
    if fields.is_flow:
        return fields.top + 1, fields.top + 1, f"{line}, ".encode()
    before = order[: order.index(key)] if key in order else ()
    known = [present[name] for name in before if name in present]
    place = _behind(data, known[-1], block) if known else None
    if place is None:
        place = fields.top - fields.column
    return place, place, b" " * fields.column + line.encode() + _eol(data)


def _replace(data: bytes, entry: Entry, value: str) -> Edit:
    old = data[entry.start : entry.end]
    new = quote(value).encode()
    # Behind a bare colon a space must come; a list may begin where a single value may not.
    if not old or not isinstance(entry.value, str):
        new = b"  "[: 1 if not old else 2] + new
    if old.endswith(b"\n"):
        new += _eol(data)
    return entry.start, entry.end, new


def _behind(data: bytes, entry: Entry, block: Block) -> int | None:
    """Return the start of the line after a single value."""
    if not isinstance(entry.value, str):
        return None
    if data[entry.start : entry.end].endswith(b"\n"):
        return entry.end
    return min(data.index(b"\n", entry.end, block.end) + 1, block.end)


def _apply(data: bytes, edits: Sequence[Edit]) -> bytes:
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


def quote(value: str) -> str:
    """Write a value so that YAML reads exactly it."""
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[^ -~]", _escape, escaped) + '"'


def _escape(match: re.Match[str]) -> str:
    return f"\\U{ord(match.group()):08x}"
