"""See by a folder's time whether letters in it came, went or moved."""

import time
from collections.abc import Iterator
from pathlib import Path

from treadle.layout import LOGS, NEW_MESSAGES, MailLayout, inbox_name, workspace_name
from treadle.mail import agents
from treadle.store import letters as index
from treadle.store.letters import FolderRow
from treadle.store.store import Reader

TASKS = "TASKS"

# A folder's time moves in steps of some milliseconds: what happens within one of them after a
# look cannot be seen by the next one, so a folder that young is read again.
_GRAIN = 50_000_000


def stale(store: Reader, mail: MailLayout) -> tuple[list[str], dict[str, FolderRow]]:
    """Return the folders that have changed since the index was made, and how all looked then."""
    marks = index.folders(store)
    return [folder for folder in every(mail) if changed(mail, folder, marks)], marks


def is_stale(store: Reader, mail: MailLayout) -> bool:
    """Tell whether any folder has changed since the index was made."""
    return bool(stale(store, mail)[0])


def is_recent(store: Reader) -> bool:
    """Tell whether new letters were looked for within the last second."""
    mark = index.folders(store).get(NEW_MESSAGES)
    return mark is not None and 0 <= time.time_ns() - mark.seen_ns < 1_000_000_000


def every(mail: MailLayout) -> Iterator[str]:
    """Yield every folder that holds letters, and the one of the tasks."""
    yield NEW_MESSAGES
    for agent in agents.folders(mail):
        yield inbox_name(agent)
        yield workspace_name(agent)
    yield LOGS
    if mail.logs.is_dir():
        for path in mail.logs.iterdir():
            if path.is_dir() and path != mail.quarantine and path.name.isprintable():
                yield f"{LOGS}/{path.name}"
    yield TASKS


def changed(mail: MailLayout, folder: str, marks: dict[str, FolderRow]) -> bool:
    """Tell whether a folder may hold something else than when it was last read."""
    now_at, mark = dated(mail.root / folder), marks.get(folder)
    if mark is None:
        return now_at != 0
    return now_at != mark.mtime_ns or mark.seen_ns - now_at < _GRAIN


def dated(folder: Path) -> int:
    """Return a folder's time; 0 without one."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0
