"""Tie a run to its task: claim it, keep the lease alive, move its lane when the run ends."""

from datetime import datetime

from treadle.contract.role import RunStatus
from treadle.ids import is_run_id
from treadle.store.store import Reader, Store
from treadle.store.tasks import TaskRow
from treadle.tasks import lanes, refusal
from treadle.tasks.change import Note, change
from treadle.tasks.claim import (
    HUMAN,
    TREADLE,
    Holder,
    check_dependencies,
    freed,
    given,
    is_held,
    owner_id,
    release,
    renew,
)

_STARTS: tuple[lanes.Lane, ...] = ("planned", "blocked", *lanes.HELD)


def begin(store: Store, task_id: str, run_id: str, now: datetime, by: str = HUMAN) -> TaskRow:
    """Claim a task for a run and put it in progress; the run's id is the claim's id."""
    claim = Holder(owner_id(by), run_id)

    def start(task: TaskRow) -> TaskRow:
        if task.lane not in _STARTS:
            raise refusal.wrong_lane(task, "in_progress")
        if task.claim_id != run_id:
            _check_free(store, task, claim.owner, now)
            check_dependencies(store, task)
        return given(task, "in_progress", claim, now)

    return change(store, task_id, start, Note(claim.owner, f"run {run_id}"), now).after


def heartbeat(store: Store, task_id: str, run_id: str, now: datetime) -> bool:
    """Keep a run's claim alive; False when the task was given to someone else."""
    return renew(store, task_id, run_id, now)


def finish(store: Store, task_id: str, run_id: str, outcome: RunStatus, now: datetime) -> TaskRow:
    """Move the lane as the run ended, if the task is still the run's; return the task as it is."""

    def end(task: TaskRow) -> TaskRow:
        if task.claim_id != run_id:
            return task
        return freed(task, _lane_after(task, outcome))

    note = Note(TREADLE, f"run {run_id} {outcome}")
    return change(store, task_id, end, note, now).after


def reconcile(store: Store, now: datetime) -> list[TaskRow]:
    """Move the tasks whose run ended, or never began, before it could tell them.

    Only for the process that holds the run lock: others' runs may be just about to begin.
    """
    tasks = [task for task in store.tasks("in_progress") if is_run_id(task.claim_id or "")]
    return [moved for task in tasks if (moved := _catch_up(store, task, now)) != task]


def _catch_up(store: Store, task: TaskRow, now: datetime) -> TaskRow:
    run_id = task.claim_id or ""
    run = store.run(run_id)
    if run is None:
        return release(store, task.task_id, Holder(TREADLE, run_id), now)
    if run.status == "running" or store.kv_value(run_id, "reason_code") == "queued":
        return task
    return finish(store, task.task_id, run_id, run.status, now)


def _lane_after(task: TaskRow, outcome: RunStatus) -> str:
    if outcome == "passed":
        return "for_review" if task.mission else "done"
    return "blocked" if outcome == "failed" else task.lane


def _check_free(store: Reader, task: TaskRow, owner: str, now: datetime) -> None:
    """Refuse a task that another run, or someone else, is working on."""
    if not is_held(task, now):
        return
    claim = task.claim_id or ""
    if is_run_id(claim):
        run = store.run(claim)
        if run is None or run.status != "running":
            return
    elif task.owner == owner:
        return
    raise refusal.held(task)
