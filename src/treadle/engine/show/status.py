"""How everything stands: what works, what is to be done, what the last night brought."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.engine.lock import is_abandoned, waiters
from treadle.engine.run import memory
from treadle.engine.run.memory import Spent
from treadle.engine.show import ends, view
from treadle.ids import day_begin, local, utc
from treadle.layout import Layout
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.store.tasks import TaskRow
from treadle.tasks import waiting

_EVENING = timedelta(hours=6)
_LATELY = timedelta(days=7)
_LOOKED_AT = 500
_STUCK = ("blocked", "for_review", "in_review")  # lanes that a person or a reviewer moves on


class WorkingRun(NamedTuple):
    """A run under way: whose turn it is and since when, and what it has used of its budgets."""

    run_id: str
    name: str | None
    goal: str
    role: str
    iteration: int
    since: str
    minutes: float
    cost_usd: float
    budgets: dict[str, object]
    is_abandoned: bool
    next: str


def working(layout: Layout, store: Reader) -> list[WorkingRun]:
    """Return the runs that are under way, or whose process died."""
    return [_working(layout, store, row) for row in store.running()]


def _working(layout: Layout, store: Reader, row: RunRow) -> WorkingRun:
    order = view.asked_order(layout, row.run_id)
    budgets, spent = order.get("budgets"), memory.recall(store, row.run_id).spent or Spent()
    last = store.events(row.run_id, store.last_seq(row.run_id) - 1)
    gone, short = is_abandoned(row), view.short_name(store, row.run_id)
    role = "do" if order.get("script") else memory.next_role(store.steps(row.run_id))
    return WorkingRun(
        run_id=row.run_id,
        name=row.task_id or ends.spec_of(store, row),
        goal=row.goal,
        role=role,
        iteration=row.iteration,
        since=last[-1].ts if last else row.created_at,
        minutes=round(spent.minutes, 2),
        cost_usd=round(spent.cost_usd, 6),
        budgets=budgets if isinstance(budgets, dict) else {},
        is_abandoned=gone,
        next=f"treadle run --resume {short}" if gone else f"treadle log -f {short}",
    )


def last_night(store: Reader, now: datetime) -> dict[str, object]:
    """Return how the runs ended that ended since yesterday evening."""
    return ended_since(store, day_begin(now) - _EVENING)


def ended_since(store: Reader, since: datetime) -> dict[str, object]:
    """Return how the runs ended that ended since a moment."""
    rows = [row for row in store.runs(_LOOKED_AT) if (row.ended_at or "") >= utc(since)]
    ended = Counter(row.status for row in rows if row.status != "running")
    known = [memory.recall(store, row.run_id) for row in rows]
    return {
        "since": since.isoformat(),
        **{word: ended[word] for word in ("passed", "failed", "stopped")},
        "landed": sum(item.landed_commit is not None for item in known),
        "cost_usd": round(sum(item.spent.cost_usd for item in known if item.spent), 6),
    }


class WaitingWork(NamedTuple):
    """A spec, message, task, run or command that waits; one that `is_stuck` needs a person.

    `about` is what a question on the desk would name.
    """

    kind: str
    name: str
    reason: str
    next: str | None
    is_stuck: bool = False
    about: tuple[str | None, ...] = ()


def waiting_commands(layout: Layout) -> Iterator[WaitingWork]:
    """Yield the commands that wait until nobody else works in the project."""
    for it in waiters(layout):
        reason = f"waits since {local(it.since)} in another terminal (pid {it.pid})"
        yield WaitingWork("command", it.line, reason, f"treadle stop {it.name}")


def waiting_tasks(store: Reader, now: datetime) -> Iterator[WaitingWork]:
    """Yield the tasks that are ready, wait for others, or stand still."""
    held = {item.task_id: item for item in waiting.waiting_tasks(store, now)}
    for row in store.tasks():
        id_, item = row.task_id, held.get(row.task_id)
        if row.lane == "planned" and item is None:
            yield WaitingWork("task", id_, "ready", f"treadle run {id_}")
        elif row.lane == "planned" and item:
            yield WaitingWork("task", id_, item.reason, item.command)
        elif item and (row.lane in _STUCK or _is_stopped(store, row)):
            yield WaitingWork("task", id_, item.reason, item.command, True, (id_,))


def _is_stopped(store: Reader, task: TaskRow) -> bool:
    runs = store.task_runs(task.task_id)[-1:] if task.lane == "in_progress" else []
    return any(memory.word(row, memory.recall(store, row.run_id)) == "stopped" for row in runs)


def stopped_runs(store: Reader, now: datetime) -> Iterator[WaitingWork]:
    """Yield the runs that wait for a worker, and the goals whose run was stopped lately."""
    since = utc(now - _LATELY)
    for row in store.runs(_LOOKED_AT, status="stopped"):
        if row.ended_at is None or not (row.task_id or row.message_id or row.ended_at < since):
            known = memory.recall(store, row.run_id)
            reason = f"{row.goal}: {known.reason}"
            if known.resume_at:
                reason = f"{reason}; goes on by itself after {local(known.resume_at)}"
            name, is_stuck = view.short_name(store, row.run_id), not memory.is_queued(row, known)
            command = memory.next_commands(row, known)[0]
            yield WaitingWork("run", name, reason, command, is_stuck, (row.run_id,))
