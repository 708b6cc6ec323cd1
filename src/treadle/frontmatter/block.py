"""Find the block of fields at the top of a file, and say what was found in it."""

from typing import NamedTuple

from treadle.errors import FormatError

MAX_BYTES = 64 << 10
MAX_DEPTH = 4
BOM = b"\xef\xbb\xbf"

Value = str | list["Value"] | dict[str, "Value"]


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


def fail(problem: str, line: int, column: int) -> FormatError:
    """Return the error for a place in the file, counted from one."""
    return FormatError(
        f"line {line}, column {column}: {problem}",
        code="frontmatter_invalid",
        details={"line": line, "column": column},
    )
