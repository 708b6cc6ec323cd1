"""Take over what other programs write into a task's files, if the task's rules allow it."""

import contextlib
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from treadle import markdown
from treadle.contract import Criterion
from treadle.errors import FormatError, TreadleError, UsageError
from treadle.files import walk
from treadle.ids import HUMAN, TREADLE, acting_agent, is_agent_id, is_task_id
from treadle.layout import HOME_NAME, MailLayout
from treadle.store.store import Store
from treadle.store.tasks import MoveRow, TaskRow
from treadle.tasks import claim, lanes
from treadle.tasks.task import add, view_stamp, view_texts, write_views

_MAX_BYTES = 1 << 20
# A mission's own files say what its tasks are.
_OF_MISSION = r"\.WP\d+$"
_LANES: dict[str, lanes.Lane] = {
    "new": "planned",
    "claimed": "claimed",
    "in_progress": "in_progress",
    "completed": "done",
    "done": "done",
    "blocked": "blocked",
    "failed": "canceled",
}


def take_over_all(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Take over every task's files; return what was put back, and why."""
    return [said for task_id in _ids(mail) for said in take_over(store, mail, task_id, now)]


def take_over(store: Store, mail: MailLayout, task_id: str, now: datetime) -> list[str]:
    """Take over one task's files; return what was put back, and why."""
    if not is_task_id(task_id):
        return []
    if store.task(task_id) is None and not _create(store, mail, task_id, now):
        return []
    said = []
    for ending, take in (("owner", _owner), ("status", _status), ("checks", _checks)):
        task = store.task(task_id)
        text = task and _foreign(store, mail, task, ending)
        if task and text is not None and (why := take(store, task, _pairs(text), now)):
            said.append(_put_back(store, task, f"TASKS/{task_id}.{ending}: {why}"))
    if said:
        write_views(store, mail, task_id)
    return said


def _ids(mail: MailLayout) -> list[str]:
    if not mail.tasks.is_dir():
        return []
    names = [path.name.rpartition(".") for path in mail.tasks.iterdir()]
    return sorted({stem for stem, _, ending in names if ending in ("md", "status", "owner")})


def _create(store: Store, mail: MailLayout, task_id: str, now: datetime) -> bool:
    """Add a task that only files know."""
    text = _read(mail.task(task_id, "md"))
    status = _read(mail.task(task_id, "status"))
    if re.search(_OF_MISSION, task_id) or (text is None and status is None):
        return False
    owner = _pairs(_read(mail.task(task_id, "owner")) or status or "").get("owner")
    lane = _LANES.get(_pairs(status or "").get("status", "new"), "planned")
    add(store, _new(task_id, text or "", trusted=mail.root.parent.name == HOME_NAME), now)
    _begin(store, task_id, owner, lane, now)
    return True


def _new(task_id: str, text: str, *, trusted: bool) -> TaskRow:
    """Read a task; a tree outside treadle's own folder may be anyone's and brings no command."""
    goal = markdown.title(text) or task_id
    asked = markdown.criteria(text) or (Criterion("AC1", goal),)
    if not trusted:
        asked = tuple(item._replace(verify=None) for item in asked)
    return TaskRow(task_id, goal, criteria=asked, source="TASKS")


def _begin(store: Store, task_id: str, owner: str | None, lane: lanes.Lane, now: datetime) -> None:
    """Bring a task found in files where its files say it is; leases begin anew."""
    holder = claim.Holder(owner if owner and is_agent_id(owner) else HUMAN)
    if owner == holder.owner and lane in lanes.HELD:
        claim.claim(store, task_id, holder.owner, now)
    if lane not in ("planned", "claimed"):
        reason = f"TASKS/{task_id}.status"
        claim.move_task(store, task_id, lane, holder, now, reason=reason, force=True)


def _owner(store: Store, task: TaskRow, said: dict[str, str], now: datetime) -> str | None:
    owner = said.get("owner")
    if not owner or owner == task.owner:
        return None
    if claim.is_held(task, now):
        return f"{owner} cannot own it, {task.owner} does"
    return _try(lambda: claim.claim(store, task.task_id, owner, now))


def _status(store: Store, task: TaskRow, said: dict[str, str], now: datetime) -> str | None:
    status = said.get("status", "").lower()
    lane = _LANES.get(status)
    if lane is None:
        return f"there is no status {status[:40]!r}"
    if lanes.status(lane) == lanes.status(task.lane):
        return None
    by = claim.Holder(said.get("owner") or task.owner or HUMAN)
    if task.owner and by.owner != task.owner:
        return f"only {task.owner} may change it"
    if lane == "done":
        return _try(lambda: claim.finish_task(store, task.task_id, by, now))
    return _try(lambda: claim.move_task(store, task.task_id, lane, by, now))


def _checks(store: Store, task: TaskRow, said: dict[str, str], now: datetime) -> str:
    return "checks come from what was observed, not from edits"


def _try(change: Callable[[], object]) -> str | None:
    try:
        change()
    except TreadleError as error:
        return error.message
    return None


def _foreign(store: Store, mail: MailLayout, task: TaskRow, ending: str) -> str | None:
    """Return a file's text if somebody else wrote it after the task's last change."""
    path = mail.task(task.task_id, ending)
    try:
        dated = path.lstat().st_mtime_ns
    except OSError:
        return None
    if dated <= view_stamp(task):
        return None
    text = _read(path)
    return text if text != view_texts(store, task)[ending] else None


def _put_back(store: Store, task: TaskRow, why: str) -> str:
    """Write down on the task that a file was overwritten."""
    current = store.task(task.task_id) or task
    at = current.updated_at
    note = MoveRow(task.task_id, 0, at, TREADLE, current.lane, current.lane, why, False)
    store.swap_task(current, current, note)
    return why


def _read(path: Path) -> str | None:
    try:
        return walk.read(path, max_bytes=_MAX_BYTES).decode("utf-8", errors="replace")
    except FormatError:
        return None


def _pairs(text: str) -> dict[str, str]:
    lines = [line.partition(":") for line in text.splitlines()]
    found = {key.strip(): said.strip().strip("\"'") for key, _, said in lines if said.strip()}
    with contextlib.suppress(UsageError, KeyError):
        found["owner"] = acting_agent(found["owner"])
    return found
