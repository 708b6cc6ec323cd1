"""Read what a spec's markdown says: its title, its sections, its acceptance criteria."""

import re
from collections.abc import Container, Iterator
from itertools import count
from typing import NamedTuple

from treadle.contract import Criterion
from treadle.ids import is_criterion_id

MAX_TITLE = 200
CRITERIA_HEADING = "Acceptance Criteria"
# The first of them that has items counts; spec-kitty's work packages have the last one.
_CRITERIA_HEADINGS = (CRITERIA_HEADING, "Success Criteria", "Objectives & Success Criteria")

# Compiled when a line looks like it: most commands read few lines.
_FENCE = r"[ \t>]*(`{3,}|~{3,})(.*)$"
_CHECKBOX = r"\[[ xX]\](?:[ \t]+|$)"
_BOX = r"[ \t>]*[-*+] +\[([ xX])\][ \t]+(.*\S)"
_EXPLICIT_ID = r"\**(?P<id>[A-Za-z][A-Za-z0-9._-]*\d)\**:\**\s+(?=\S)"


class Line(NamedTuple):
    """One line outside of code and comments, and the level of the heading it is (0: none)."""

    text: str
    level: int
    is_code: bool


def title(text: str) -> str:
    """Return the first heading or line that says something, at most 200 characters."""
    for line in lines(text):
        shown = "".join(sign if sign.isprintable() else " " for sign in line.text)
        words = " ".join((_heading(shown)[1] if line.level else shown).split())
        if words and not line.is_code:
            return words if len(words) <= MAX_TITLE else words[: MAX_TITLE - 1] + "…"
    return ""


def section(text: str, heading: str) -> str | None:
    """Return what stands under a heading, to the next one of its level; None without it."""
    found = _section(text, heading)
    return None if found is None else "\n".join(line.text for line in found[1]).strip("\n")


def criteria(text: str) -> tuple[Criterion, ...]:
    """Return the items under *Acceptance Criteria*, each with the command that checks it.

    A text without any has them under *Success Criteria* or *Objectives & Success Criteria*.
    """
    found: dict[str, Criterion] = {}
    for number, item in enumerate(_items(_criteria_section(text)[1]), 1):
        criterion = _criterion(item, f"AC{number}")
        if criterion.id in found:
            criterion = criterion._replace(id=_free_id(found, number))
        found[criterion.id] = criterion
    return tuple(found.values())


def without_commands(text: str) -> str:
    """Return a text in which `criteria` finds no command, wherever it is written down."""
    return re.sub(r"(`+)[ \t$]*\$", r"\1", text)


def checkboxes(text: str) -> list[tuple[str, str]]:
    """Return the items of checklists with their marks, space or x; none of code or comments."""
    rows = (re.match(_BOX, line.text) for line in lines(text) if not line.is_code)
    return [(found[1], found[2]) for found in rows if found]


def without_criteria(text: str) -> str:
    """Return a text without the items that `criteria` reads, and without their bare heading."""
    start, inside = _criteria_section(text)
    if not inside or any(line.is_code for line in inside):  # code is in no criterion
        return text
    taken = {start + at for item in _grouped(inside) for at in item}
    rows, end = text.splitlines(), start + len(inside)
    left = [row for at, row in enumerate(rows[start:end], start) if at not in taken]
    around = rows[:start], left
    if not any(row.strip() for row in left):
        around = rows[: start - 1], []
    return "\n".join((*around[0], *around[1], *rows[end:]))


def _criteria_section(text: str) -> tuple[int, list[Line]]:
    """Return the lines of the first section that has criteria, and where they begin."""
    sections = (_section(text, name) for name in _CRITERIA_HEADINGS)
    return next((it for it in sections if it and any(_items(it[1]))), (0, []))


def _section(text: str, heading: str) -> tuple[int, list[Line]] | None:
    level = start = 0
    inside: list[Line] = []
    for number, line in enumerate(lines(text), 1):
        if level and 0 < line.level <= level:
            break
        if level:
            inside.append(line)
        elif line.level and _same(_heading(line.text)[1], heading):
            level, start = line.level, number
    return (start, inside) if level else None


def _same(found: str, wanted: str) -> bool:
    return found.strip(" *_:").casefold() == wanted.casefold()


def _heading(line: str) -> tuple[int, str]:
    """Return the level of a heading and what it says; a line that is none has the level 0."""
    marked = line.lstrip(" ")
    words = marked.lstrip("#")
    level = len(marked) - len(words)
    if len(line) - len(marked) > 3 or not 0 < level < 7 or (words and words[0] not in " \t"):
        return 0, ""
    words = words.strip(" \t")
    bare = words.rstrip("#")
    return level, (bare if bare[-1:] in (" ", "\t") else words).strip()


def lines(text: str) -> Iterator[Line]:
    """Yield the lines: comments left out, code marked so that nothing in it counts."""
    may_begin, in_list = True, False  # an indented block of code, which lists have none of
    for line in _fenced(text):
        words = line.text.strip()
        is_deep = line.text[:1] in (" ", "\t") and line.text.expandtabs(4).startswith("    ")
        is_code = line.is_code or bool(words and is_deep and may_begin and not in_list)
        yield line._replace(is_code=is_code)
        if words and not is_code and not is_deep:
            begins = _mark_end(line.text) > 0
            leaves = line.level or (may_begin and not line.text[0].isspace())
            in_list = begins or (in_list and not leaves)
        may_begin = not words or is_code or line.level > 0


def _fenced(text: str) -> Iterator[Line]:
    """Yield the lines; comments are left out, and what stands between fences is code."""
    fence, in_comment = "", False
    for raw in text.splitlines():
        if fence:
            fence = "" if _closes(raw, fence) else fence
            yield Line(raw, 0, True)
            continue
        line, in_comment = _visible(raw, in_comment)
        opening = re.match(_FENCE, line) if "```" in line or "~~~" in line else None
        fence = opening[1] if opening and not ("`" in opening[1] and "`" in opening[2]) else ""
        yield Line(line, _heading(line)[0] if "#" in line else 0, bool(fence))


def _closes(line: str, fence: str) -> bool:
    words = line.strip(" \t>")
    return words.startswith(fence) and not words.strip(fence[0])


def _visible(line: str, in_comment: bool) -> tuple[str, bool]:
    """Return what a reader sees of a line, and whether a comment goes on behind it."""
    shown = ""
    while True:
        if in_comment:
            _, closing, line = line.partition("-->")
            if not closing:
                return shown, True
        before, opening, line = line.partition("<!--")
        shown += before
        if not opening:
            return shown, False
        in_comment = True


def _items(lines: list[Line]) -> Iterator[str]:
    """Yield the top-level list items, continuation lines joined."""
    for first, *rest in _grouped(lines):
        text = lines[first].text[_mark_end(lines[first].text) :]
        yield from _joined([text, *(lines[at].text for at in rest if not lines[at].is_code)])


def _grouped(lines: list[Line]) -> Iterator[list[int]]:
    """Yield the numbers of the lines that are one top-level list item."""
    item: list[int] = []
    content = 0
    after_blank = False
    for at, line in enumerate(lines):
        end = 0 if line.is_code else _mark_end(line.text)
        indent = len(line.text) - len(line.text.lstrip())
        if end and (not item or indent < content):
            if item:
                yield item
            item, content = [at], end
        elif line.level or (after_blank and line.text.strip() and indent < content):
            if item:
                yield item
            item = []
        elif item:
            item.append(at)
        after_blank = not line.text.strip()
    if item:
        yield item


def _mark_end(text: str) -> int:
    """Return where the words of a list item begin, behind its bullet or number; 0 if it is none."""
    words = text.lstrip(" ")
    bare = words.lstrip("0123456789")
    digits = len(words) - len(bare)
    is_marked = bare[:1] in (("-", "*", "+") if not digits else (".", ")"))
    if (
        len(text) - len(words) > 3
        or digits > 9
        or not is_marked
        or bare[1:2] not in ("", " ", "\t")
    ):
        return 0
    return len(text) - len(bare[1:].lstrip(" \t"))


def _joined(item: list[str]) -> Iterator[str]:
    words = " ".join(" ".join(item).split())
    box = re.match(_CHECKBOX, words) if words.startswith("[") else None
    words = words[box.end() :] if box else words
    if words:
        yield words


def _criterion(item: str, default: str) -> Criterion:
    id_, verify = default, None
    looks_named = item.partition(":")[0].rstrip("*")[-1:].isdigit()
    named = re.match(_EXPLICIT_ID, item) if looks_named else None
    if named and is_criterion_id(named["id"]):
        id_, item = named["id"], item[named.end() :]
    before, verify = _command(item)
    if verify:
        item = before.rstrip(" :\u2013\u2014-") or verify
    return Criterion(id_, item, verify)


def _command(item: str) -> tuple[str, str | None]:
    """Return the command between backticks at the end of an item, and what stands before it."""
    words = item.removesuffix(".")
    inside = words.rstrip("`")
    ticks = words[len(inside) :]
    before, found, said = inside.rpartition(ticks) if ticks else ("", "", "")
    said = said.removeprefix(" ")
    is_command = found and not before.endswith("`") and said.startswith(("$ ", "$\t"))
    return before, (said[1:].strip() or None) if is_command else None


def _free_id(taken: Container[str], number: int) -> str:
    return next(id_ for n in count(number) if (id_ := f"AC{n}") not in taken)
