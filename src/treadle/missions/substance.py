"""Tell written specs and plans from scaffolds: say what is missing, line by line."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from treadle.missions import template

Kind = Literal["spec", "plan"]

LANGUAGE = "Language/Version"
PEERS = (
    "Primary Dependencies",
    "Storage",
    "Testing",
    "Target Platform",
    "Project Type",
    "Performance Goals",
    "Constraints",
    "Scale/Scope",
)

_FENCE = re.compile(r"\s*(?:>\s*)*(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_REQUIREMENT = re.compile(r"\W*FR-\d{3,}\b[\s*_`:.)—–-]*(.*)")
_BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(.*)")
_CELLS = re.compile(r"(?<!\\)\|")
# Compiled when a bracket is met, because most texts have none and `next` is in a hurry.
_SPAN = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
_PLACEHOLDER = r"(?is)\[\s*(?:needs clarification|e\.g\.)|.*\be\.g\.,?"
_OPEN = re.compile(r"\W*(?:todo|tbd|needs clarification)\W*", re.I)
_LATER = re.compile(r"\W*(?:TODO|TBD|\?\?\?|NEEDS CLARIFICATION)")
# What is left of a template's sentence when its placeholder is taken out says nothing.
_HOLLOW = r"(?i)\b(?:the|system|users?|must|shall|should|be|able|to|can|and|or)\b"
# A priority or a state is no description.
_LABEL = re.compile(
    r"\W*(?:high|medium|low|p\d|must|should|could|won't|open|new|draft|proposed|approved|done"
    r"|yes|no|n/a)?\W*",
    re.I,
)


class Line(NamedTuple):
    """A line that counts, with its number in the file."""

    number: int
    text: str


def missing(text: str, kind: Kind) -> tuple[str, ...]:
    """Return what keeps a spec or plan from being substantive; nothing if it is."""
    lines = list(_visible(text))
    found = _missing_spec(lines) if kind == "spec" else _missing_plan(lines)
    return tuple(f"{kind}.md:{number}: {what}" for number, what in found)


def _missing_spec(lines: list[Line]) -> list[tuple[int, str]]:
    head, body = _section(lines, "functional requirements")
    hollow = []
    for number, described in _requirements(body if head else lines):
        if is_real(described):
            return []
        hollow.append((number, "this requirement has no description yet"))
    if hollow:
        return hollow
    where = head.number if head else 1
    return [
        (where, "add a row such as `| FR-001 | what must be true |` to Functional Requirements")
    ]


def _missing_plan(lines: list[Line]) -> list[tuple[int, str]]:
    head, body = _section(lines, "technical context")
    if head is None:
        return [(1, "add a section `## Technical Context`")]
    fields = {name: (number, is_real(value)) for number, name, value in _fields(body)}
    found = []
    number, is_good = fields.get(LANGUAGE, (head.number, False))
    if not is_good:
        found.append((number, f"give {LANGUAGE} a real value"))
    if not any(fields.get(name, (0, False))[1] for name in PEERS):
        peers = [fields[name][0] for name in PEERS if name in fields]
        where = peers[0] if peers else head.number
        found.append((where, f"give at least one more field a real value: {', '.join(PEERS)}"))
    return found


def is_real(text: str) -> bool:
    """Tell whether something is left of a text when placeholders are taken out."""
    rest = text
    if "[" in text:
        rest = re.sub(_SPAN, lambda span: "" if _is_placeholder(span[0]) else span[0], text)
    if _LATER.match(rest) or _OPEN.fullmatch(rest):
        return False
    if rest != text:
        rest = re.sub(_HOLLOW, "", rest)
    return any(char.isalnum() for char in rest)


def _is_placeholder(span: str) -> bool:
    return span in template.spans() or re.match(_PLACEHOLDER, span) is not None


def _visible(text: str) -> Iterator[Line]:
    """Yield the lines outside code fences and HTML comments."""
    fence, in_comment = "", False
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if fence:
            found = _FENCE.match(line)
            if found and found[1].startswith(fence) and not line.strip(" \t>`~"):
                fence = ""
            continue
        shown, in_comment = _outside_comments(line, in_comment)
        if not in_comment and (found := _FENCE.match(shown)):
            fence = found[1]
        elif shown.strip():
            yield Line(number, shown)


def _outside_comments(line: str, in_comment: bool) -> tuple[str, bool]:
    shown = ""
    while line:
        before, mark, line = line.partition("-->" if in_comment else "<!--")
        shown += "" if in_comment else before
        if mark:
            in_comment = not in_comment
    return shown, in_comment


def _section(lines: list[Line], title: str) -> tuple[Line | None, list[Line]]:
    """Return the heading and what stands below it, deeper headings included."""
    start, depth = None, 0
    for index, line in enumerate(lines):
        found = _HEADING.match(line.text)
        if found and start is not None and len(found[1]) <= depth:
            return lines[start], lines[start + 1 : index]
        if found and start is None and _title(found[2]).startswith(title):
            start, depth = index, len(found[1])
    return (None, []) if start is None else (lines[start], lines[start + 1 :])


def _title(text: str) -> str:
    return re.sub(r"^[\W\d]+|[*_`]", "", text).lower()


def _requirements(lines: list[Line]) -> Iterator[tuple[int, str]]:
    """Yield each requirement's line number and description."""
    for index, line in enumerate(lines):
        if line.text.lstrip().startswith("|"):
            yield from _row(line)
        elif (bullet := _BULLET.match(line.text)) and (found := _REQUIREMENT.match(bullet[1])):
            yield line.number, " ".join([found[1], *_continued(lines, index)])


def _row(line: Line) -> Iterator[tuple[int, str]]:
    cells = _CELLS.split(line.text.strip().strip("|"))
    for index, cell in enumerate(cells):
        if found := _REQUIREMENT.match(cell):
            described = [found[1], *cells[index + 1 :]]
            yield line.number, " ".join(c for c in described if not _LABEL.fullmatch(c))
            return


def _continued(lines: list[Line], index: int) -> Iterator[str]:
    number = lines[index].number
    for line in lines[index + 1 :]:
        number += 1
        if line.number != number or not line.text[0].isspace() or _BULLET.match(line.text):
            return
        yield line.text.strip()


def _fields(lines: list[Line]) -> Iterator[tuple[int, str, str]]:
    """Yield the known fields: `**Name**: value`, `- Name: value` or `| Name | value |`."""
    for line in lines:
        bullet = _BULLET.match(line.text)
        text = (bullet[1] if bullet else line.text).strip().strip("|")
        plain = re.sub(r"[*_`]", "", text).strip()
        for name in (LANGUAGE, *PEERS):
            if plain.lower().startswith(name.lower()):
                yield line.number, name, plain[len(name) :].lstrip(" :|")
