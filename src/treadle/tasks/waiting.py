"""Say what a task waits for, and the command with which its work goes on."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from treadle.ids import local, utc
from treadle.store.runs import RunRow
from treadle.store.tasks import TaskRow
from treadle.tasks import lanes, questions, tries
from treadle.tasks.tries import Rows


class WaitingTask(NamedTuple):
    """A task that cannot be begun: why, and what goes on with it; one that is stuck needs that."""

    task_id: str
    reason: str
    command: str
    is_stuck: bool = True


def passed_run(store: Rows, task: TaskRow) -> RunRow | None:
    """Return the newest passed run of a task, unless a person calls it done without landing it.

    Of several that were tried side by side it is the one that landed, or the best.
    """
    rows = [row for row in store.task_runs(task.task_id) if row.status == "passed"]
    last = (tries.chosen(store, rows[-1]) or rows[-1]) if rows else None
    is_dropped = task.lane == "done" and not task.mission
    return None if last and is_dropped and not tries.is_landed(store, last) else last


def is_met(needed: TaskRow, *, stacks: bool) -> bool:
    """Tell whether others may follow a task; a run can stack on work that has not landed."""
    return needed.lane == "done" or (stacks and needed.lane == "approved" and not needed.mission)


def unmet(store: Rows, task: TaskRow, *, stacks: bool) -> list[TaskRow]:
    """Return what must come before a task."""
    return [row for row in store.dependencies(task.task_id) if not is_met(row, stacks=stacks)]


def all_below(store: Rows, task_id: str) -> set[str]:
    """Return everything a task depends on, directly or not."""
    links, found, left = store.task_links(), set[str](), [task_id]
    while left:
        here = left.pop()
        new = {below for above, below in links if above == here} - found
        found |= new
        left += new
    return found


def waiting_tasks(store: Rows, now: datetime, *, stacks: bool = True) -> list[WaitingTask]:
    """Return every task that is neither done nor ready, with the command that goes on."""
    found = store.ready_tasks(utc(now))
    ready = {row.task_id for row in found if stacks or not unmet(store, row, stacks=False)}
    rows = [row for row in store.tasks() if row.lane not in lanes.FINAL]
    return [_waiting(store, row, now, stacks) for row in rows if row.task_id not in ready]


def ways(store: Rows, task: TaskRow, needed: Iterable[TaskRow], now: datetime) -> list[str]:
    """Return the commands that bring on what a task waits for."""
    return [
        f"treadle task link {task.task_id} --depends-on {row.task_id} --remove"
        if row.lane == "canceled"
        else _waiting(store, row, now).command
        for row in needed
    ]


def _waiting(store: Rows, task: TaskRow, now: datetime, stacks: bool = True) -> WaitingTask:
    id_, runs = task.task_id, store.task_runs(task.task_id)
    last = runs[-1] if runs and task.lane in ("in_progress", "blocked") else None
    if task.lane == "planned" and (needed := unmet(store, task, stacks=stacks)):
        names = ", ".join(f"{row.task_id} ({row.lane})" for row in needed)
        return WaitingTask(id_, f"waits for {names}", ways(store, task, needed, now)[0])
    if last and last.status == "running":
        return WaitingTask(
            id_, f"run {last.run_id} works on it", f"treadle log -f {last.run_id}", False
        )
    if last and tries.is_queued(store, last):
        said = f"run {last.run_id} waits for a worker"
        return WaitingTask(id_, said, f"treadle log -f {last.run_id}", False)
    if last and last.status == "stopped":
        way = _asked(store, task) or f"treadle run --resume {last.run_id}"
        return WaitingTask(id_, f"run {last.run_id} is stopped", way)
    if task.claim_id and (task.lease_until or "") > utc(now):
        said = f"held by {task.owner} until {local(task.lease_until or '')}"
        return WaitingTask(id_, said, f"treadle task show {id_}", False)
    if task.mission and task.lane in lanes.REVIEW:
        return WaitingTask(id_, f"is {task.lane}", f"treadle next --mission {task.mission}", False)
    if task.lane == "approved" and (passed := passed_run(store, task)):
        return WaitingTask(id_, "passed, not landed", f"treadle land {passed.run_id}", False)
    if task.lane in lanes.REVIEW:
        return WaitingTask(id_, f"is {task.lane}", f"treadle task done {id_}", False)
    asked = _asked(store, task) if task.lane == "blocked" else None
    return WaitingTask(id_, f"is {task.lane}", asked or f"treadle run {id_}")


def _asked(store: Rows, task: TaskRow) -> str | None:
    """Return the command that answers what a person was asked about a task, if that is open."""
    found = [row for row in store.questions() if row.task_id == task.task_id]
    if not found:
        return None
    last = found[-1]
    can_act = last.actions and last.kind != "approval"  # which nobody gives without a look
    look = f"treadle desk show {last.question_id}"
    return (can_act and questions.command(last.actions[0], last.subject)) or look
