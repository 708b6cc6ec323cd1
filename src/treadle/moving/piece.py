"""One thing that another system left, and what becomes of it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from treadle import markdown
from treadle.contract import Criterion
from treadle.errors import NotFoundError
from treadle.files import beneath
from treadle.text import block, line

# A file is copied, a task or a setting made, a spec listed as done; the rest is used where it is,
# or has no counterpart and stays.
Act = Literal["copy", "task", "setting", "listed", "in_place", "left"]
MAX_FILE = 64 << 20
_SKIPPED = {".git", "node_modules", "__pycache__"}


class NewTask(NamedTuple):
    """A task to make, as another system described it; its words are never commands."""

    goal: str
    text: str | None = None
    criteria: tuple[Criterion, ...] = ()
    lane: str = "planned"
    depends_on: tuple[str, ...] = ()


class Piece(NamedTuple):
    """Something of another system: where it is, what it is, and what it becomes."""

    system: str
    source: str  # a file from the project's root; behind `#` what of it
    kind: str
    act: Act
    target: str = ""  # a path from the project's root, a task's id, a setting's key, a spec's name
    data: bytes | None = None  # what is written instead of the file as it is
    task: NewTask | None = None
    value: object = None
    note: str = ""

    @property
    def file(self) -> str:
        """Return the file it is in."""
        return self.source.partition("#")[0]


def files(root: Path, folder: Path) -> Iterator[str]:
    """Yield every file below a folder, from the project's root; links are named, not followed."""
    if is_linked(root, name := folder.relative_to(root).as_posix()):
        yield name
        return
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted([*names, *(it for it in folders if Path(place, it).is_symlink())]):
            yield Path(place, name).relative_to(root).as_posix()


def is_linked(root: Path, name: str) -> bool:
    """Tell whether a path below the project's root is a link, or leads through one."""
    return (root / name).resolve() != root.resolve() / name


def content(root: Path, name: str) -> bytes | None:
    """Return a file's bytes; None if it is too large, behind a link or cannot be read."""
    try:
        with beneath.opened(root, name) as stream:
            data = stream.read(MAX_FILE + 1)
    except (OSError, NotFoundError):
        return None
    return data if len(data) <= MAX_FILE else None


def text_of(root: Path, name: str) -> str:
    """Return a file's text, or nothing if it is none that can be read."""
    try:
        return (content(root, name) or b"").decode()
    except ValueError:
        return ""


def words_only(piece: Piece) -> Piece:
    """Return a piece whose task is nothing but words, in treadle's own files as well.

    Agents are told its goal before its text; without criteria, the goal is the one.
    """
    if piece.task is None:
        return piece
    goal = line(" ".join(piece.task.goal.split()))[: markdown.MAX_TITLE].strip()
    told = block("\n\n".join(filter(None, (piece.task.goal.strip(), piece.task.text))))
    text = None if told == goal else markdown.without_commands(told)
    criteria = tuple(
        Criterion(it.id, markdown.without_commands(line(it.text)))
        for it in piece.task.criteria or (Criterion("AC1", goal),)
    )
    return piece._replace(task=piece.task._replace(goal=goal, text=text, criteria=criteria))


def texts_to_criteria(texts: list[str]) -> tuple[Criterion, ...]:
    """Number the criteria that others wrote; a command in them stays words."""
    return tuple(Criterion(f"AC{number}", text) for number, text in enumerate(texts, 1) if text)
