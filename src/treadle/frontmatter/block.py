"""Find the block of fields at the top of a file, and say what was found in it."""

import re
from typing import NamedTuple

from treadle.errors import FormatError

MAX_BYTES = 64 << 10
MAX_DEPTH = 4
BOM = b"\xef\xbb\xbf"

Value = str | list["Value"] | dict[str, "Value"]

_FENCE = re.compile(rb"---[ \t]*\r?\n")
_CLOSING = re.compile(rb"^---[ \t]*\r?(?:\n|\Z)", re.MULTILINE)


class Block(NamedTuple):
    """Where the fields stand between their fences; `end` is where the closing fence begins."""

    start: int
    end: int
    body: int


class Entry(NamedTuple):
    """One field of the outermost mapping and where its value stands in the file."""

    key: str
    value: Value
    start: int
    end: int


class Fields(NamedTuple):
    """The outermost mapping; its first key stands at `top`, indented by `column`."""

    entries: tuple[Entry, ...]
    top: int
    column: int = 0
    is_flow: bool = False


def find(data: bytes) -> Block | None:
    """Return the block between the first line and the closing fence, if the file has both."""
    opening = _FENCE.match(data, len(BOM) if data.startswith(BOM) else 0)
    if opening is None:
        return None
    closing = _CLOSING.search(data, opening.end())
    if closing is None:
        return None
    return Block(opening.end(), closing.start(), closing.end())


def fail(problem: str, line: int, column: int) -> FormatError:
    """Return the error for a place in the file, counted from one."""
    return FormatError(
        f"line {line}, column {column}: {problem}",
        code="frontmatter_invalid",
        details={"line": line, "column": column},
    )
