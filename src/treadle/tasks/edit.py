"""Change what a task asks for, or take it off the list, while nobody works on it."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from treadle.errors import BlockedError, argument
from treadle.files import atomic
from treadle.ids import HUMAN, utc
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.store.task_changes import MoveRow
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, lanes, questions, task


class RemovedTask(NamedTuple):
    """A task that was canceled, what no longer waits for it, and the runs that stay."""

    row: TaskRow
    freed: tuple[str, ...]
    runs: tuple[RunRow, ...]


def edit_task(
    store: Store,
    task_id: str,
    goal: str | None,
    texts: Sequence[str],
    verify: Sequence[str],
    now: datetime,
) -> TaskRow:
    """Change goal, criteria or commands; a new goal replaces a longer text, too."""
    while True:
        before = task.find_task(store, task_id)
        _require_open(before, now)
        after = _edited(before, goal, texts, verify)._replace(updated_at=utc(now))
        names = ("goal", "criteria")
        changed = [name for name in names if getattr(before, name) != getattr(after, name)]
        if not changed:
            return before
        said = f"edited: {', '.join(changed)}"
        lane = before.lane
        note = MoveRow(task_id, 0, after.updated_at, HUMAN, lane, lane, said, False)
        if store.edit_task(before, after, note):
            break
    path = store.mail.task(task_id, "md")
    if path.exists() and path.read_text(errors="replace") == task.definition(before):
        atomic.write(path, task.definition(after).encode())
    task.write_views(store, store.mail, task_id)
    return after


def _edited(
    before: TaskRow, goal: str | None, texts: Sequence[str], verify: Sequence[str]
) -> TaskRow:
    new = (goal or "").strip() or before.goal
    kept = [it._replace(text=new) if it.text == before.goal else it for it in before.criteria]
    asked = task.numbered(new, texts) if texts else kept
    text = before.text if new == before.goal else None
    return before._replace(goal=new, text=text, criteria=task.with_commands(asked, verify))


def _require_open(row: TaskRow, now: datetime) -> None:
    """Refuse to change what is being worked on, was judged, or is described elsewhere."""
    id_, again = row.task_id, f"treadle task add {argument(row.goal)}"
    if claim.is_held(row, now):
        raise lanes.held_by_other(row)
    if row.mission:
        where = row.source or f"the files of mission {row.mission}"
        way, why = f"treadle next --mission {row.mission}", f"is described by {where}; edit that"
    elif row.lane in lanes.REVIEW:
        way = f'treadle task move {id_} --to planned --reason "it changes"'
        why = f"is {lanes.words(row)}; what it asks for was judged"
    elif row.lane in lanes.FINAL:
        way, why = again, f"is {row.lane}, which is final"
    else:
        return
    raise BlockedError(f"{id_} {why}", code="task_fixed", fix=[way])


def remove_task(store: Store, task_id: str, now: datetime, *, force: bool) -> RemovedTask:
    """Cancel a task for good; its runs, their branches and its letters stay.

    With `force` also one that somebody works on, or that others depend on and then no longer do.
    """
    row = task.find_task(store, task_id)
    above = [it for it in store.dependents(task_id) if it.lane not in lanes.FINAL]
    if not force and claim.is_held(row, now):
        raise lanes.held_by_other(row)
    if not force and above:
        names = ", ".join(it.task_id for it in above)
        links = (f"treadle task link {it.task_id} --depends-on {task_id} --remove" for it in above)
        fix = [*links, f"treadle task remove {task_id} --force"]
        text = f"{task_id} cannot be removed: {names} would wait for it"
        raise BlockedError(text, code="task_needed", fix=fix)
    by = claim.Holder(HUMAN)
    gone = claim.move_task(store, task_id, "canceled", by, now, reason="removed", force=True).after
    for it in above:
        store.unlink_task(it.task_id, task_id)
    for asked in store.questions():
        if asked.task_id == task_id:
            questions.close(store, asked.subject, "removed", now)
    return RemovedTask(gone, tuple(it.task_id for it in above), tuple(store.task_runs(task_id)))
