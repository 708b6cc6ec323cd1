"""Take over what other programs write into a task's files, if the task's rules allow it."""

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from treadle import markdown
from treadle.contract import Criterion
from treadle.errors import TreadleError, UsageError
from treadle.ids import HUMAN, TREADLE, acting_agent, is_task_id, utc
from treadle.layout import HOME_NAME, MailLayout
from treadle.store import letters
from treadle.store.store import Store
from treadle.store.task_changes import MoveRow, TaskClaimRow
from treadle.store.tasks import ENDINGS, TaskRow
from treadle.tasks import claim, lanes, statefile
from treadle.tasks.statefile import StateFile
from treadle.tasks.task import FILES, Checks, insert, stamps, standing, write_views

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
# A file that says nothing yet may still be being written.
_YOUNG = 2_000_000_000


class TakenOver(NamedTuple):
    """What was put back or cannot be read, and why; which tasks others have completed."""

    said: list[str]
    done: list[str]


def take_over_all(store: Store, mail: MailLayout, now: datetime) -> TakenOver:
    """Take over every task's files; those of tasks that only files know at once."""
    ids, found = sorted(store.unseen_tasks(mail.tasks)), TakenOver([], [])
    known = set(store.task_ids()) if ids else set[str]()
    new = [task_id for task_id in ids if task_id not in known]

    def adopt(tx: Store) -> list[str]:
        return [why for task_id in new for why in take_over(tx, mail, task_id, now)]

    found.said.extend(store.write(adopt, lasting=False) if new else [])  # the files still say it
    for task_id in [task_id for task_id in ids if task_id in known]:
        before = store.task(task_id)
        found.said.extend(take_over(store, mail, task_id, now))
        after = store.task(task_id)
        if before and after and before.lane != after.lane == "done":
            found.done.append(task_id)
    return found


def take_over(store: Store, mail: MailLayout, task_id: str, now: datetime) -> list[str]:
    """Take over one task's files; return what was put back or cannot be read, and why."""
    if not is_task_id(task_id):
        return []
    files = {ending: statefile.read(mail.task(task_id, ending)) for ending in ENDINGS}
    refused = [file.error for file in files.values() if file.error]
    before = store.task(task_id)
    if before is None:
        return refused + _adopt(store, mail, task_id, files, now)
    seen, ours = store.task_files(task_id), stamps(before, store.task_moves(task_id))
    done = {row.name: row for row in seen.values() if row.shown_at}
    new = [file for file in files.values() if file.text is not None]
    new = [file for file in new if not file.is_as(done.get(file.name))]
    foreign = [file for file in new if file.mtime_ns not in ours and not _is_unfinished(file)]
    lags = any(row.shown_at != before.updated_at for row in seen.values())
    # Looked at, but not done with: whoever comes after a kill takes it over once more.
    store.mark_files([file.row(task_id, "") for file in foreign])
    said = [why for file in foreign if (why := _take(store, task_id, file, now))]
    for why in said:
        _note(store, task_id, why)
    if foreign and before.claim_id:  # a sign of life, like any command by the owner
        claim.renew(store, task_id, before.claim_id, now)
    if said or lags or len(new) > len(foreign) or store.task(task_id) != before:
        write_views(store, mail, task_id)
    else:
        store.mark_files([file.row(task_id, before.updated_at) for file in foreign])
    return refused + said


def _adopt(
    store: Store, mail: MailLayout, task_id: str, files: Mapping[str, StateFile], now: datetime
) -> list[str]:
    """Add a task that only files know, as they say; none of them is touched."""
    there = [file for file in files.values() if file.text is not None]
    if re.search(_OF_MISSION, task_id) or not there:
        store.mark_files([file.row(task_id, "") for file in there])
        return []
    if any(map(_is_unfinished, there)):
        return []
    return _add(store, described(store, mail, task_id), files, now)


def recall(store: Store, mail: MailLayout, task: TaskRow, now: datetime) -> None:
    """Add a mission's task as its files show it: the store that wrote them is lost."""
    files = {ending: statefile.read(mail.task(task.task_id, ending)) for ending in ENDINGS}
    said = statefile.values(files["status"].text or "")
    if store.task(task.task_id) is None and _lane(said.get("status", "")):
        _add(store, task, files, now)


def _add(store: Store, task: TaskRow, files: Mapping[str, StateFile], now: datetime) -> list[str]:
    """Add a task with what its files say of how it stands; return what is wrong with them."""
    there = [file for file in files.values() if file.text is not None]
    said = {ending: statefile.values(file.text or "") for ending, file in files.items()}
    task_id, status, wrong = task.task_id, said["status"], list[str]()
    own = lanes.known(status.get("lane", "")) if task.mission else None
    lane = own or _lane(status.get("status", "new"))  # which has too few words for a mission
    if lane is None:
        wrong.append(f"TASKS/{task_id}.status: {_no_status(status)}; {task_id} waits as blocked")
    elif lane == "planned" and "owner" in said["owner"]:
        lane = "claimed"
    changed = _moment(status.get("updated_at")) or _moment(max(file.mtime_ns for file in there))
    changed = changed or utc(now)
    begun = _moment(status.get("started_at") or said["owner"].get("claimed_at")) or changed
    row = task._replace(created_at=begun, updated_at=changed, lane=lane or "blocked")
    row = row._replace(owner=_owner_in(said, wrong))
    if row.owner and lane in lanes.HELD:
        row = claim.given(row, lane, claim.new_claim(row.owner, now), now)
    checks = [name for name in Checks._fields if name in said["checks"]]
    store.write(
        lambda tx: (
            insert(tx, row, there, changed)
            and [tx.claim_check(_claimed(row, name, said["checks"][name])) for name in checks]
        )
    )
    for why in wrong:
        _note(store, task_id, why)
    return wrong


def described(store: Store, mail: MailLayout, task_id: str) -> TaskRow:
    """Return a task as its `.md` describes it, or as the first letter that asks for it does.

    A tree outside treadle's own folder may be anyone's and brings no command.
    """
    text = statefile.read(mail.task(task_id, "md")).text or ""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    goal = markdown.title(text) or letters.asked(store, task_id) or task_id
    asked = markdown.criteria(text) or (Criterion("AC1", goal),)
    if mail.root.parent.name != HOME_NAME:
        asked = tuple(item._replace(verify=None) for item in asked)
    return TaskRow(task_id, goal, criteria=asked, source=FILES)


def _owner_in(said: Mapping[str, Mapping[str, str]], wrong: list[str]) -> str | None:
    name = said["owner"].get("owner") or said["status"].get("owner")
    try:
        return acting_agent(name) if name else None
    except UsageError as error:
        wrong.append(f"TASKS: {error.message}")
        return None


def _claimed(row: TaskRow, name: str, value: str) -> TaskClaimRow:
    return TaskClaimRow(row.task_id, name, value.lower() == "true", FILES, row.updated_at)


def _moment(said: str | int | None) -> str:
    """Return a time as rows hold it; nothing for what is none."""
    try:
        if isinstance(said, int):
            return utc(datetime.fromtimestamp(said // 1000 / 1e6, UTC))
        found = datetime.fromisoformat(said or "")
        return utc(found.replace(tzinfo=found.tzinfo or UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def _is_unfinished(file: StateFile) -> bool:
    is_young = abs(time.time_ns() - file.mtime_ns) < _YOUNG
    return is_young and not statefile.values(file.text or "")


def _take(store: Store, task_id: str, file: StateFile, now: datetime) -> str | None:
    """Let a file change its task; return why it cannot."""
    said, task = statefile.values(file.text or ""), store.task(task_id)
    with contextlib.suppress(UsageError, KeyError):
        said["owner"] = acting_agent(said["owner"])
    if task is None:
        return None
    take = {"owner": _owner, "status": _status, "checks": _checks}
    why = take[file.name.rpartition(".")[2]](store, task, said, now)
    return f"TASKS/{file.name}: {why}" if why else None


def _owner(store: Store, task: TaskRow, said: dict[str, str], now: datetime) -> str | None:
    owner = said.get("owner")
    if not owner or owner == task.owner:
        return None
    if claim.is_held(task, now):
        return f"{owner} cannot own it, {task.owner} does"
    return _try(lambda: claim.claim(store, task.task_id, owner, now))


def _status(store: Store, task: TaskRow, said: dict[str, str], now: datetime) -> str | None:
    lane = _lane(said.get("status", ""))
    if lane is None:
        return _no_status(said)
    if lanes.status(lane) == lanes.status(task.lane):
        is_theirs = said.get("owner", task.owner) == task.owner
        return None if is_theirs else f"{task.owner or 'nobody'} owns it, not {said['owner']}"
    by, id_ = claim.Holder(said.get("owner") or task.owner or HUMAN), task.task_id
    if task.owner and by.owner != task.owner:
        return f"only {task.owner} may change it"
    if lane == "done":
        return _try(lambda: claim.finish_task(store, id_, by, now))
    begins = task.lane == "planned" and lane == "in_progress"
    if begins and (why := _try(lambda: claim.claim(store, id_, by.owner, now))):
        return why
    return _try(lambda: claim.move_task(store, id_, lane, by, now))


def _lane(status: str) -> lanes.Lane | None:
    return _LANES.get(status.lower().replace("-", "_").replace(" ", "_"))


def _no_status(said: Mapping[str, str]) -> str:
    known = ", ".join(name for name in _LANES if name != "done")
    return f"there is no status {said.get('status', '')[:40]!r} (known: {known})"


def _checks(store: Store, task: TaskRow, said: dict[str, str], now: datetime) -> str | None:
    now_at = standing(store, task)._asdict()
    if all(said.get(name, "") in ("", str(value).lower()) for name, value in now_at.items()):
        return None
    return "checks come from what was observed, not from edits"


def _try(change: Callable[[], object]) -> str | None:
    try:
        change()
    except TreadleError as error:
        return error.message
    return None


def _note(store: Store, task_id: str, why: str) -> None:
    """Write down on the task what was wrong with a file."""
    if current := store.task(task_id):
        at, lane = current.updated_at, current.lane
        note = MoveRow(task_id, 0, at, TREADLE, lane, lane, why, False)
        store.swap_task(current, current, note)
