"""Read patches and show them: side by side, in colour, with names as people write them."""

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import groupby, zip_longest
from typing import Literal, NamedTuple
from zlib import crc32

import pygments.token as T
from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename
from pygments.token import _TokenType

from treadle import text as words

MAX_LINES = 5_000
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_NAMES = re.compile(r'diff --git (?:"a/.*"|a/.*) ("b/.*"|b/.*)$')
_RENAME = re.compile(r'((?:rename|copy) (?:from|to)) (".*")')
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED = {
    b"t": b"\t",
    b"n": b"\n",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}

_LONGEST = 2_000  # characters of a line that is coloured
_MOST_WORDS = 40_000  # pairs of words that are compared within a line
_ALIKE = 0.4
_WORD = re.compile(r"\w+|\s+|.")
_SPAN = Markup('<span class="{}">{}</span>')
_CLASSES: dict[str, tuple[_TokenType, ...]] = {
    "hc": (T.Comment,),
    "hs": (T.Literal.String,),
    "hn": (T.Literal.Number, T.Keyword.Constant),
    "hk": (T.Keyword, T.Operator.Word, T.Name.Tag),
    "hf": (T.Name.Function, T.Name.Class, T.Name.Decorator, T.Generic.Heading),
}

Kind = Literal["same", "change"]


class Side(NamedTuple):
    """A line of one side, with its number; once it is painted, with its colours."""

    number: int
    text: str
    markup: Markup = Markup("")


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

    @property
    def blocks(self) -> list[tuple[Kind, list[Row]]]:
        """Return the rows in stretches that are the same, or changed."""
        return [(kind, list(rows)) for kind, rows in groupby(self.rows, lambda row: row.kind)]


class FileDiff(NamedTuple):
    """What a patch does to one file."""

    path: str
    notes: tuple[str, ...]
    hunks: tuple[Hunk, ...]
    added: int
    removed: int

    @property
    def length(self) -> int:
        """Return how many rows it takes."""
        return sum(len(hunk.rows) for hunk in self.hunks)

    @property
    def sides(self) -> Literal["old", "new", "both"]:
        """Tell whether anything stands on both sides; a new file has only the one."""
        rows = [row for hunk in self.hunks for row in hunk.rows]
        if all(row.old is None for row in rows):
            return "new"
        return "old" if all(row.new is None for row in rows) else "both"

    @property
    def digest(self) -> str:
        """Return what tells one change of the file from another."""
        return f"{crc32(repr(self.hunks).encode(errors='replace')):08x}"


class Diff(NamedTuple):
    """A patch, as far as it is shown."""

    files: tuple[FileDiff, ...]
    hidden: int  # lines that are too many


def parse_diff(text: str, most: int = MAX_LINES) -> Diff:
    """Read a patch in git's or the plain style; what is no patch gives no files."""
    lines = text.split("\n")
    shown, hidden = lines[:most], max(len(lines) - most, 0)
    return Diff(tuple(_file(section) for section in _sections(shown)), hidden)


def cut(file: FileDiff, start: int, size: int) -> FileDiff:
    """Return the file with some of its rows only; how much was added in all stays told."""
    hunks, at = [], 0
    for hunk in file.hunks:
        rows = hunk.rows[max(start - at, 0) : max(start + size - at, 0)]
        if rows:
            hunks.append(hunk._replace(rows=rows))
        at += len(hunk.rows)
    return file._replace(hunks=tuple(hunks))


def paint(file: FileDiff) -> FileDiff:
    """Return the file with the colours of its language, and what differs within a line marked."""
    lexer = _lexer(file.path)
    return file._replace(hunks=tuple(_painted(hunk, lexer) for hunk in file.hunks))


def paint_all(found: Diff) -> Diff:
    """Return a patch with all its colours."""
    return found._replace(files=tuple(map(paint, found.files)))


def _painted(hunk: Hunk, lexer: Lexer | None) -> Hunk:
    old = _tokens(lexer, tuple(row.old.text for row in hunk.rows if row.old))
    new = _tokens(lexer, tuple(row.new.text for row in hunk.rows if row.new))
    rows = []
    for row in hunk.rows:
        left, right = _differences(row)
        rows.append(
            row._replace(
                old=row.old and row.old._replace(markup=_marked(row.old.text, next(old), left)),
                new=row.new and row.new._replace(markup=_marked(row.new.text, next(new), right)),
            )
        )
    return hunk._replace(rows=tuple(rows))


@lru_cache(maxsize=256)
def _lexer(path: str) -> Lexer | None:
    try:
        found: type[Lexer] | None = find_lexer_class_for_filename(path)
    except ValueError:  # a name of which no pattern can be asked
        return None
    return found(stripnl=False, ensurenl=False) if found else None


Token = tuple[int, str]  # where it ends in its line, and its class


def _tokens(lexer: Lexer | None, lines: tuple[str, ...]) -> Iterator[list[Token]]:
    """Yield each line's tokens, as far as they have a colour; long lines stay plain."""
    if lexer is None or max(map(len, lines), default=0) > _LONGEST:
        yield from ([] for _ in lines)
        return
    found: list[Token] = []
    at = 0
    for kind, value in lexer.get_tokens("\n".join(lines) + "\n"):
        for number, part in enumerate(value.split("\n")):
            if number:
                yield found
                found, at = [], 0
            at += len(part)
            if part:
                found.append((at, _class_of(kind)))


@cache
def _class_of(kind: _TokenType) -> str:
    return next((name for name, kinds in _CLASSES.items() if any(kind in it for it in kinds)), "")


def _differences(row: Row) -> tuple[list[Token], list[Token]]:
    """Return what is marked on both sides of a changed line, unless nearly all of it is new."""
    if row.kind == "same" or not row.old or not row.new:
        return [], []
    left, right = (_WORD.findall(side.text[:_LONGEST]) for side in (row.old, row.new))
    if len(left) * len(right) > _MOST_WORDS:
        return [], []
    match = SequenceMatcher(None, left, right, autojunk=False)
    if match.ratio() < _ALIKE:
        return [], []
    codes = match.get_opcodes()
    return (
        _ends(left, ((it[0], it[1], it[2]) for it in codes)),
        _ends(right, ((it[0], it[3], it[4]) for it in codes)),
    )


def _ends(parts: list[str], codes: Iterable[tuple[str, int, int]]) -> list[Token]:
    found, at = [], 0
    for name, start, end in codes:
        at += sum(map(len, parts[start:end]))
        found.append((at, "" if name == "equal" else "x"))
    return found


def _marked(text: str, tokens: list[Token], changed: list[Token]) -> Markup:
    """Return a line with its colours and marks, as few elements as they need."""
    if not tokens and not changed:
        return escape(text)
    parts, at = [], 0
    ends = sorted({*(end for end, _ in tokens), *(end for end, _ in changed), len(text)})
    spans: list[tuple[str, str]] = []
    for end in ends:
        classes = " ".join(filter(None, (_at(tokens, end), _at(changed, end))))
        if spans and spans[-1][0] == classes:
            spans[-1] = (classes, spans[-1][1] + text[at:end])
        elif end > at:
            spans.append((classes, text[at:end]))
        at = max(at, end)
    for classes, part in spans:
        parts.append(_SPAN.format(classes, part) if classes else escape(part))
    return Markup("").join(parts)


def _at(tokens: list[Token], end: int) -> str:
    """Return the class of what ends here or goes on beyond."""
    return next((name for last, name in tokens if last >= end), "")


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
        notes=tuple(words.line(_unquoted_note(it)) for it in section[:head] if _is_note(it)),
        hunks=hunks,
        added=sum(row.new is not None for row in rows),
        removed=sum(row.old is not None for row in rows),
    )


def _path(head: list[str]) -> str:
    for start in ("+++ ", "--- "):
        for line in head:
            name = _unquoted(line[4:].split("\t")[0].strip())
            if line.startswith(start) and name != "/dev/null":
                return name.removeprefix("b/" if start == "+++ " else "a/")
    found = _NAMES.match(head[0]) if head else None
    return _unquoted(found[1]).removeprefix("b/") if found else "?"


def _unquoted(name: str) -> str:
    """Return a name as people write it: git writes bytes beyond ASCII as numbers, in quotes."""
    if not (len(name) > 1 and name[0] == name[-1] == '"'):
        return name
    data = _ESCAPE.sub(_unescaped, name[1:-1].encode(errors="surrogateescape"))
    return data.decode(errors="replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 0xFF]) if code.isdigit() else _ESCAPED.get(code, code)


def _unquoted_note(note: str) -> str:
    found = _RENAME.fullmatch(note)
    return f"{found[1]} {_unquoted(found[2])}" if found else note


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
