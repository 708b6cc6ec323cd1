"""Change a task by compare-and-swap, and keep a record of who moved it and why."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from treadle.ids import utc
from treadle.store.store import Reader, Store
from treadle.store.tasks import MoveRow, TaskRow
from treadle.tasks import checks, refusal, views
from treadle.tasks.owner import HUMAN as HUMAN
from treadle.tasks.owner import TREADLE as TREADLE


class Note(NamedTuple):
    """Who changes a task, and why."""

    who: str
    reason: str | None = None
    forced: bool = False


class Changed(NamedTuple):
    """A task before and after."""

    before: TaskRow
    after: TaskRow


def change(
    store: Store, task_id: str, decide: Callable[[TaskRow], TaskRow], note: Note, now: datetime
) -> Changed:
    """Read, decide, and write unless someone came in between; then decide again."""
    while True:
        before = find(store, task_id)
        after = decide(before)
        if after == before:
            return Changed(before, before)
        _check_tested(store, before, after, note)
        after = after._replace(updated_at=utc(now))
        if store.swap_task(before, after, moved(before, after, note)):
            views.write(store, store.mail, task_id)
            return Changed(before, after)


def find(store: Reader, task_id: str) -> TaskRow:
    """Return a task, or raise NotFoundError with the nearest id."""
    task = store.task(task_id)
    if task is None:
        raise refusal.unknown(task_id, store.task_ids())
    return task


def _check_tested(store: Reader, before: TaskRow, after: TaskRow, note: Note) -> None:
    """Refuse to complete untested work; a mission's tasks have their reviews instead."""
    if after.lane != "done" or after.mission or note.forced or note.who == TREADLE:
        return
    checks.require(store, before, person=note.who == HUMAN)


def moved(before: TaskRow, after: TaskRow, note: Note) -> MoveRow | None:
    """Return the record of a change of lane or holder, or None when it is neither."""
    if before.lane == after.lane and before.claim_id == after.claim_id:
        return None
    return MoveRow(
        task_id=after.task_id,
        seq=0,
        at=after.updated_at,
        who=note.who,
        from_lane=before.lane,
        to_lane=after.lane,
        reason=note.reason,
        forced=note.forced,
    )
