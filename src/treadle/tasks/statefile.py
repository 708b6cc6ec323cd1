"""The state files of a task, `key: value` a line: read them, change them, see who changed them."""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.errors import FormatError
from treadle.files import walk
from treadle.layout import MailLayout
from treadle.store.task_changes import TaskFileRow, TaskHistory
from treadle.store.tasks import ENDINGS

_MAX_BYTES = 1 << 20
# What is indented belongs to the value of another key. A comment stands after a space.
_LINE = re.compile(r"([A-Za-z_][\w-]*)([ \t]*:[ \t]*)(|.*?[^\s])([ \t]+#.*|[ \t]*)(\r?\n?)")


class StateFile(NamedTuple):
    """A file as it lies there: its text, or what is wrong with it; neither if there is none."""

    name: str
    mtime_ns: int = 0
    size: int = -1
    mode: int = 0o644
    text: str | None = None
    error: str | None = None

    def row(self, task_id: str, shown_at: str) -> TaskFileRow:
        """Return how it looks, for later; one that cannot be read is told of at each look."""
        if self.error:
            return TaskFileRow(self.name, task_id, shown_at=shown_at)
        return TaskFileRow(self.name, task_id, self.mtime_ns, self.size, shown_at)

    def is_as(self, row: TaskFileRow | None) -> bool:
        """Tell whether it still looks like this."""
        return row is not None and (row.mtime_ns, row.size) == (self.mtime_ns, self.size)


def look(path: Path | str) -> StateFile:
    """Return how a file looks, without its text."""
    name = str(path).rpartition("/")[2]
    try:
        state = os.lstat(path)
    except OSError:
        return StateFile(name)
    return StateFile(name, state.st_mtime_ns, state.st_size, stat.S_IMODE(state.st_mode))


def read(path: Path) -> StateFile:
    """Read a file that a stranger may have put there; nothing is followed, nothing hangs."""
    found = look(path)
    if found.size < 0:
        return found
    try:
        text = walk.read(path, max_bytes=_MAX_BYTES).decode("utf-8", "surrogateescape")
    except FormatError as error:
        return found._replace(error=f"TASKS/{error.message}")
    if "\0" in text:
        return found._replace(error=f"TASKS/{path.name} has NUL bytes")
    return found._replace(text=text)


def is_unseen(store: TaskHistory, mail: MailLayout, task_id: str) -> bool:
    """Tell whether a task has files that nobody has read as they are now."""
    known, files = store.task_files(task_id), (look(mail.task(task_id, it)) for it in ENDINGS)
    return any(file.size >= 0 and not file.is_as(known.get(file.name)) for file in files)


def values(text: str) -> dict[str, str]:
    """Return what the lines say; an empty value says nothing."""
    lines = (match for line in _lines(text) if (match := _LINE.fullmatch(line)))
    found = {match[1]: match[3].strip("\"'") for match in lines}
    return {key: value for key, value in found.items() if value}


def with_values(text: str, wanted: Mapping[str, str | None]) -> str:
    """Return the text with some keys' lines changed, added in order, or taken out for None."""
    end, order = "\r\n" if "\r\n" in text else "\n", list(wanted)
    made = [("", line) for line in _lines(text)]
    for number, (_, line) in enumerate(made):
        match = _LINE.fullmatch(line)
        if match and match[1] in wanted:
            made[number] = match[1], _changed(match, wanted[match[1]])
    known, made = {key for key, _ in made}, [item for item in made if item[1]]
    for key in order:
        if key not in known and wanted[key] is not None:
            before = [at for at, (it, _) in enumerate(made) if it in order[: order.index(key)]]
            at = before[-1] if before else len(made) - 1
            if made and not made[at][1].endswith("\n"):
                made[at] = made[at][0], made[at][1] + end
            made.insert(at + 1, (key, f"{key}: {wanted[key]}{end}"))
    return "".join(line for _, line in made)


def _changed(line: re.Match[str], value: str | None) -> str:
    key, colon, said, comment, end = line.groups()
    if value is None or value == said.strip("\"'"):
        return "" if value is None else line[0]
    return f"{key}{colon if said else ': '}{value}{comment}{end}"


def _lines(text: str) -> list[str]:
    """Split a text where lines end, and nowhere else."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
