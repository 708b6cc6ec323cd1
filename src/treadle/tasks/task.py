"""Add tasks, look at them, and say which waits for which."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from treadle.contract.criterion import Criterion
from treadle.errors import UsageError
from treadle.ids import is_task_id, utc
from treadle.store.store import Reader, Store
from treadle.store.tasks import TaskRow
from treadle.tasks import views
from treadle.tasks.change import find


class NewTask(NamedTuple):
    """What a task is to be; without an id it gets the next free one."""

    goal: str
    criteria: tuple[Criterion, ...]
    task_id: str | None = None
    text: str | None = None
    mission: str | None = None
    source: str | None = None


def add(store: Store, new: NewTask, now: datetime) -> TaskRow:
    """Add a task at the end of the order."""
    _check(new)
    added = store.add_task(row(new, utc(now)))
    if added is None:
        raise UsageError(
            f"there already is a task {new.task_id}; give another --id",
            code="task_exists",
            fix=[f"treadle task show {new.task_id}"],
        )
    views.define(store.mail, added)
    views.write(store, store.mail, added.task_id)
    return added


def ready(store: Reader, now: datetime) -> list[TaskRow]:
    """Return the tasks that can be run now, in order."""
    return store.ready_tasks(utc(now))


def link(store: Store, task_id: str, depends_on: Sequence[str]) -> None:
    """Make a task wait for others; circles are refused."""
    find(store, task_id)
    for other in depends_on:
        find(store, other)
        circle = store.link_task(task_id, other)
        if circle:
            raise _circular(task_id, circle)


def unlink(store: Store, task_id: str, depends_on: Sequence[str]) -> None:
    """Let a task wait no longer for others."""
    find(store, task_id)
    for other in depends_on:
        if not store.unlink_task(task_id, other):
            raise UsageError(
                f"{task_id} does not depend on {other}", fix=[f"treadle task show {task_id}"]
            )


def _circular(task_id: str, circle: tuple[str, ...]) -> UsageError:
    if circle == (task_id,):
        return UsageError(f"{task_id} cannot depend on itself", code="task_cycle")
    way = " → ".join((task_id, *circle))
    return UsageError(
        f"{task_id} cannot depend on {circle[0]}, that is a circle: {way}",
        code="task_cycle",
        fix=[f"treadle task link {circle[-2]} --depends-on {circle[-1]} --remove"],
    )


def _check(new: NewTask) -> None:
    if not new.goal.strip():
        raise UsageError("a task needs a goal", fix=['treadle task add "what should be true"'])
    if new.task_id is not None and not is_task_id(new.task_id):
        raise UsageError(
            f"--id {new.task_id!r}: begin with a letter, then letters and digits "
            f"joined by . _ -, at most 64"
        )


def row(new: NewTask, now: str) -> TaskRow:
    """Return what the store keeps of a new task."""
    return TaskRow(
        task_id=new.task_id or "",
        goal=new.goal.strip(),
        text=new.text,
        criteria=new.criteria,
        lane="planned",
        owner=None,
        claim_id=None,
        lease_until=None,
        mission=new.mission,
        source=new.source,
        created_at=now,
        updated_at=now,
        position=0,
    )
