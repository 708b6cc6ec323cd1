"""Make a task of an issue that somebody wrote: its title, its checklist, its commands apart."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from treadle import markdown
from treadle.contract import Criterion
from treadle.errors import UsageError
from treadle.store.tasks import TaskRow
from treadle.text import block, line, quoted

_CHECK = re.compile(r"(?i)\W*checks?\W*:\W*")
_SHELL = re.compile(r"\s*(```+|~~~+) *(?:sh|bash|shell|console)\s*")
_REFERENCE = re.compile(r"[\w./-]*#\d+")
_LONGEST = 20_000  # characters of an issue that agents are told
_MOST = 50  # criteria
_ALONE = "## Acceptance Criteria\n\n"
_PASSES = "the commands under “Check” pass"


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
    texts = [item.text for item in found]
    commands = [f"AC{at}={item.verify}" for at, item in enumerate(found, 1) if item.verify]
    if checks := list(_checks(issue.body)):
        texts = [*(texts or [goal])[: _MOST - 1], _PASSES]
        commands.append(f"AC{len(texts)}={' && '.join(checks)}")
    criteria = tuple(
        Criterion(f"AC{at}", markdown.without_commands(line(text)))
        for at, text in enumerate((texts or [goal])[:_MOST], 1)
    )
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
    """Yield the commands in shell blocks that follow a line that says `Check:`."""
    announced, fence = False, ""
    inside: list[str] = []
    for row in text.splitlines():
        opening = None if fence else _SHELL.fullmatch(row)
        if fence and row.strip().startswith(fence):
            yield from _joined(inside)
            announced, fence, inside = False, "", []
        elif fence:
            inside.append(row)
        elif opening and announced:
            fence = opening[1]
        elif row.strip():
            announced = bool(_CHECK.fullmatch(row))


def _joined(rows: Sequence[str]) -> Iterator[str]:
    """Yield commands, a line each; one that ends with a backslash goes on in the next."""
    whole = re.sub(r"\\\n\s*", "", "\n".join(rows))
    for row in whole.splitlines():
        command = re.sub(r"^\s*\$ ", "", row).strip()
        if command and not command.startswith("#"):
            yield command
