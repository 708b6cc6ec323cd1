"""Set a patch side by side: what goes on the left, what comes on the right."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Literal, NamedTuple

from treadle import text as words

MAX_LINES = 5_000
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_NAMES = re.compile(r"diff --git \"?a/(.*?)\"? \"?b/(.*?)\"?$")

Kind = Literal["same", "change"]


class Side(NamedTuple):
    """A line of one side, with its number."""

    number: int
    text: str


class Row(NamedTuple):
    """What stands beside each other; a missing side is None."""

    kind: Kind
    old: Side | None
    new: Side | None


class Hunk(NamedTuple):
    """One stretch of changes; `line` is where it begins in the new file."""

    head: str
    line: int
    rows: tuple[Row, ...]


class FileDiff(NamedTuple):
    """What a patch does to one file."""

    path: str
    notes: tuple[str, ...]
    hunks: tuple[Hunk, ...]
    added: int
    removed: int


class Diff(NamedTuple):
    """A patch, as far as it is shown."""

    files: tuple[FileDiff, ...]
    hidden: int  # lines that are too many


def parse(text: str) -> Diff:
    """Read a patch in git's or the plain style; what is no patch gives no files."""
    lines = text.split("\n")
    shown, hidden = lines[:MAX_LINES], max(len(lines) - MAX_LINES, 0)
    return Diff(tuple(_file(section) for section in _sections(shown)), hidden)


def _sections(lines: list[str]) -> Iterator[list[str]]:
    """Cut before each file: at git's own line, or at a name that follows no such line."""
    section: list[str] = []
    left = 0  # lines of the current hunk that are still to come
    is_git = False
    for number, line in enumerate(lines):
        starts = left <= 0 and (
            line.startswith("diff --git ")
            or (not is_git and line.startswith("--- ") and _follows(lines, number))
        )
        if starts:
            if section:
                yield section
            section, is_git = [], line.startswith("diff --git ")
        elif not section:
            continue
        section.append(line)
        left = _left(line, left)
    if section:
        yield section


def _follows(lines: list[str], number: int) -> bool:
    return number + 1 < len(lines) and lines[number + 1].startswith("+++ ")


def _left(line: str, left: int) -> int:
    """Count the lines of a hunk down, so that a removed `-- x` is not taken for a name."""
    if left <= 0:
        found = _HUNK.match(line)
        return int(found[2] or 1) + int(found[4] or 1) if found else 0
    if line.startswith(("-", "+")):
        return left - 1
    return left if line.startswith("\\") else left - 2


def _file(section: list[str]) -> FileDiff:
    head = next((n for n, line in enumerate(section) if _HUNK.match(line)), len(section))
    hunks = tuple(_hunks(section[head:]))
    rows = [row for hunk in hunks for row in hunk.rows if row.kind == "change"]
    return FileDiff(
        path=words.line(_path(section[:head])),
        notes=tuple(words.line(note) for note in section[:head] if _is_note(note)),
        hunks=hunks,
        added=sum(row.new is not None for row in rows),
        removed=sum(row.old is not None for row in rows),
    )


def _path(head: list[str]) -> str:
    for start in ("+++ ", "--- "):
        for line in head:
            name = line[4:].split("\t")[0].strip().strip('"')
            if line.startswith(start) and name != "/dev/null":
                return name.removeprefix("b/" if start == "+++ " else "a/")
    found = _NAMES.match(head[0]) if head else None
    return found[2] if found else "?"


def _is_note(line: str) -> bool:
    return bool(line) and not line.startswith(("diff --git ", "index ", "--- ", "+++ "))


def _hunks(lines: list[str]) -> Iterator[Hunk]:
    starts = [number for number, line in enumerate(lines) if _HUNK.match(line)]
    for start, end in zip_longest(starts, starts[1:], fillvalue=len(lines)):
        found = _HUNK.match(lines[start])
        assert found  # by the choice of starts
        old, new = int(found[1]), int(found[3])
        yield Hunk(words.block(lines[start]), new, tuple(_rows(lines[start + 1 : end], old, new)))


def _rows(lines: list[str], old: int, new: int) -> Iterator[Row]:
    gone: list[Side] = []
    come: list[Side] = []
    for line in lines:
        sign, text = line[:1], words.block(line[1:])
        if sign == "-":
            gone.append(Side(old, text))
            old += 1
        elif sign == "+":
            come.append(Side(new, text))
            new += 1
        elif sign == " ":
            yield from _beside(gone, come)
            yield Row("same", Side(old, text), Side(new, text))
            gone, come, old, new = [], [], old + 1, new + 1
    yield from _beside(gone, come)


def _beside(gone: list[Side], come: list[Side]) -> Iterator[Row]:
    return (Row("change", old, new) for old, new in zip_longest(gone, come))
