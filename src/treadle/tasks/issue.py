"""Make a task of an issue that somebody wrote: its title, its checklist, its commands apart."""

import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from treadle import markdown
from treadle.contract import Criterion
from treadle.errors import UsageError
from treadle.store.tasks import TaskRow
from treadle.text import block, line, quoted

_CHECK = re.compile(r"(?i)\W*checks?\W*:\W*")
_SHELL = re.compile(r"\s*(```+|~~~+) *(?:sh|bash|shell|console)\s*")
# A row that can stand beside `&&`: none that needs another row, or after which the failure of one
# before it would not count.
_SINGLE = re.compile(
    r"""(?!(?:do|then|case)\b)(?:[^#<"'`\\;|&{(]|(?<!\|)\|(?!\|)|&&|"[^"`\\]*"|'[^']*')*(?<![|&])"""
)
# How a script stands on one line of a task's file, with every blank it has.
_SPELLED = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "  ": " \\0040"}
_REFERENCE = re.compile(r"[\w./-]*#\d+")
_LONGEST = 20_000  # characters of an issue that agents are told
_MOST = 50  # criteria
_ALONE = "## Acceptance Criteria\n\n"


class Issue(NamedTuple):
    """What somebody asks for elsewhere, in their words; `number` is 0 for a file."""

    number: int
    title: str
    body: str
    url: str


class TaskDraft(NamedTuple):
    """A task to be; its commands are only what somebody wrote until the user says yes."""

    goal: str
    text: str
    criteria: tuple[Criterion, ...]
    commands: tuple[str, ...]  # each `AC1=…`

    @property
    def mark(self) -> str:
        """Return what names exactly these commands."""
        return hashlib.sha256("\0".join(self.commands).encode()).hexdigest()[:8]


def draft(issue: Issue) -> TaskDraft:
    """Read an issue; nothing in it is more than text."""
    goal = line(" ".join(issue.title.split()))[: markdown.MAX_TITLE].strip()
    if not goal:
        raise UsageError(f"{issue.url}: there is no title to take as a goal")
    found = markdown.criteria(issue.body) or markdown.criteria(_ALONE + _boxes(issue.body))
    found = found[: _MOST - 1]
    texts = [item.text for item in found]
    commands = [f"AC{at}={item.verify}" for at, item in enumerate(found, 1) if item.verify]
    if checks := _joined([*_checks(issue.body)]):
        texts = [*(texts or [goal]), "the commands under “Check” pass"]
        commands.append(f"AC{len(texts)}={checks}")
    words = map(markdown.without_commands, map(line, texts or [goal]))
    criteria = tuple(Criterion(f"AC{at}", text) for at, text in enumerate(words, 1))
    told = quoted(issue.body, _LONGEST) if issue.body.strip() else ""
    head = f"{goal}\n\n{line(issue.url)} says, in the words of whoever wrote it:"
    shown = tuple(block(command) for command in commands)
    return TaskDraft(goal, f"{head}\n\n{told}" if told else goal, criteria, shown)


def closes(task: TaskRow | None) -> str | None:
    """Return the issue that a task is about, as a commit names it: `#12`, or `owner/name#12`."""
    word = (task.source or "").partition(" ")[0] if task else ""
    return word if _REFERENCE.fullmatch(word) else None


def _boxes(text: str) -> str:
    """Return the items of checklists, as one list."""
    return "\n".join(f"- {' '.join(item.split())}" for _, item in markdown.checkboxes(text))


def _checks(text: str) -> Iterator[str]:
    """Yield the rows of shell blocks that follow a line that says `Check:`."""
    announced, fence = False, ""
    inside: list[str] = []
    for row, _, is_code in markdown.lines(text):
        opening = None if fence else _SHELL.fullmatch(row)
        if fence and row.strip().startswith(fence):
            yield from re.sub(r"\\\n\s*", "", "\n".join(inside)).splitlines()
            announced, fence, inside = False, "", []
        elif fence:
            inside.append(row)
        elif opening and announced:
            fence = opening[1]
        elif row.strip():
            announced = not is_code and bool(_CHECK.fullmatch(row))


def _joined(rows: Sequence[str]) -> str:
    """Return one command that passes only if every row does; nothing if there is none."""
    plain = [re.sub(r"^\s*\$ ", "", row).rstrip() for row in rows]
    found = [row.strip() for row in plain if row and not row.lstrip().startswith("#")]
    if len(found) < 2 or all(map(_SINGLE.fullmatch, found)):
        return " && ".join(found)
    script = re.sub(r"\\|\n|\t|  ", lambda sign: _SPELLED[sign[0]], "\n".join(plain))
    return f'sh -ec "$(printf %b {shlex.quote(script)})"'
