"""Move a task from lane to lane, each move legal or forced with a reason."""

from datetime import datetime

from treadle.errors import UsageError
from treadle.store import letters as index
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import lanes, refusal
from treadle.tasks.change import Changed, Note, change
from treadle.tasks.claim import (
    Holder,
    acting,
    check_dependencies,
    check_holder,
    freed,
    given,
    is_holder,
    new_claim,
)


def move(
    store: Store,
    task_id: str,
    to: lanes.Lane,
    by: Holder,
    now: datetime,
    reason: str | None = None,
    force: bool = False,
) -> Changed:
    """Move a task; `force` skips the rules but not the reason, and is recorded."""
    if force and not reason:
        raise UsageError(f"--force on {task_id} needs --reason to say why")
    by = acting(by)

    def go(task: TaskRow) -> TaskRow:
        _check_lane(task, to, reason, force)
        if not force:
            check_holder(task, by, now)
            _check_ready(store, task, to)
        return _entered(task, to, by, now)

    return change(store, task_id, go, Note(by.owner, reason, force), now)


def done(store: Store, task_id: str, by: Holder, now: datetime) -> Changed:
    """Finish a task: a plain one walks its remaining lanes, a mission's must be approved."""
    by = acting(by)

    def finish(task: TaskRow) -> TaskRow:
        if task.lane == "done":
            return task
        if task.lane == "canceled":
            raise refusal.wrong_lane(task, "done")
        if task.mission and task.lane != "approved":
            raise refusal.not_approved(task)
        # Whoever asked for the work may say that it is done; the tests have to agree.
        if index.asker(store, task_id) != by.owner:
            check_holder(task, by, now)
        _check_ready(store, task, "claimed")
        return freed(task, "done")._replace(owner=task.owner or by.owner)

    return change(store, task_id, finish, Note(by.owner), now)


def _check_lane(task: TaskRow, to: lanes.Lane, reason: str | None, force: bool) -> None:
    if task.lane in lanes.FINAL or (not force and to not in lanes.legal(task.lane)):
        raise refusal.wrong_lane(task, to)
    if lanes.needs_reason(task.lane, to) and not reason:
        raise UsageError(
            f"{task.task_id} is {task.lane}; sending it back to {to} needs --reason to say why"
        )


def _check_ready(store: Store, task: TaskRow, to: lanes.Lane) -> None:
    """Whatever takes a task from planned into someone's hands is a claim."""
    if task.lane == "planned" and to in lanes.HELD:
        check_dependencies(store, task)


def _entered(task: TaskRow, to: lanes.Lane, by: Holder, now: datetime) -> TaskRow:
    if to not in lanes.HELD:
        return freed(task, to)
    keeper = Holder(by.owner, task.claim_id) if is_holder(task, by) else new_claim(by.owner, now)
    return given(task, to, keeper, now)
