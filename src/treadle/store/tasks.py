"""Tasks, how they moved, what is said of them, and what was reported of missions."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from treadle.contract import Criterion
from treadle.store.runs import CheckRow
from treadle.store.transaction import Reading, Writing, change, kept_in


def _criteria(text: str) -> tuple[Criterion, ...]:
    return tuple(Criterion(*item) for item in json.loads(text))


@kept_in("tasks", criteria=_criteria)
class TaskRow(NamedTuple):
    """One task; whoever knows `claim_id` holds it until `lease_until`."""

    task_id: str
    goal: str
    text: str | None = None
    criteria: tuple[Criterion, ...] = ()
    lane: str = "planned"
    owner: str | None = None
    claim_id: str | None = None
    lease_until: str | None = None
    mission: str | None = None
    source: str | None = None
    created_at: str = ""
    updated_at: str = ""
    position: int = 0


@kept_in("task_moves", forced=bool)
class MoveRow(NamedTuple):
    """One change of a task's lane: who, when and why."""

    task_id: str
    seq: int
    at: str
    who: str
    from_lane: str
    to_lane: str
    reason: str | None
    forced: bool


@kept_in("mission_steps", is_blocked=bool)
class MissionStepRow(NamedTuple):
    """What was reported of a mission's step that is not done: failures, or what blocks it."""

    mission: str
    step: str
    failures: int
    is_blocked: bool
    note: str | None
    who: str
    at: str


@kept_in("task_claims", value=bool)
class TaskClaimRow(NamedTuple):
    """What a letter says about a task's checks."""

    task_id: str
    name: str
    value: bool
    claimed_by: str
    claimed_at: str


@kept_in("reservations")
class ReservationRow(NamedTuple):
    """Files that an owner keeps to one task for a while."""

    task_id: str
    owner: str
    pattern: str
    until: str


class TaskReader(Reading):
    """Answer questions about tasks."""

    def task(self, task_id: str) -> TaskRow | None:
        """Return one task."""
        return self.first(TaskRow, "task", task_id=task_id)

    def tasks(self, lane: str | None = None) -> list[TaskRow]:
        """Return the tasks, or those in one lane, in order."""
        return self.records(TaskRow, "tasks_in_lane" if lane else "tasks", lane=lane)

    def tasks_to_renew(self, owner: str, now: str, soon: str) -> list[TaskRow]:
        """Return an owner's tasks whose lease ends soon."""
        return self.records(TaskRow, "tasks_to_renew", owner=owner, now=now, soon=soon)

    def task_ids(self) -> list[str]:
        """Return every task's id."""
        return [row[0] for row in self.all("task_ids")]

    def ready_tasks(self, now: str) -> list[TaskRow]:
        """Return the planned tasks that nobody holds and that wait for nothing, in order."""
        return self.records(TaskRow, "ready_tasks", now=now)

    def dependencies(self, task_id: str) -> list[TaskRow]:
        """Return the tasks that must be done before this one."""
        return self.records(TaskRow, "dependencies", task_id=task_id)

    def dependents(self, task_id: str) -> list[TaskRow]:
        """Return the tasks that wait for this one."""
        return self.records(TaskRow, "dependents", task_id=task_id)

    def task_links(self) -> list[tuple[str, str]]:
        """Return every task that waits for another, with that one."""
        return [(task_id, depends_on) for task_id, depends_on in self.all("task_links")]

    def task_moves(self, task_id: str) -> list[MoveRow]:
        """Return how a task went from lane to lane."""
        return self.records(MoveRow, "task_moves", task_id=task_id)

    def task_checks(self, task_id: str) -> list[CheckRow]:
        """Return what treadle itself saw in the last check of a task's work."""
        return self.records(CheckRow, "checks_of_task", task_id=task_id)

    def task_claims(self, task_id: str) -> dict[str, TaskClaimRow]:
        """Return what letters say of a task, by the name of the check."""
        rows = self.records(TaskClaimRow, "task_claims", task_id=task_id)
        return {row.name: row for row in rows}

    def reservations(self, now: str) -> list[ReservationRow]:
        """Return the reservations that still hold."""
        return self.records(ReservationRow, "reservations", now=now)

    def mission_tasks(self, mission: str) -> list[TaskRow]:
        """Return the tasks of a mission."""
        return self.records(TaskRow, "mission_tasks", mission=mission)

    def mission_steps(self, mission: str) -> list[MissionStepRow]:
        """Return what was reported of a mission's steps that are not done."""
        return self.records(MissionStepRow, "mission_steps", mission=mission)


class TaskStore(TaskReader, Writing):
    """Change tasks."""

    @change
    def reserve_task_id(self) -> str:
        """Return a task id like `T-7` that nobody else will get."""
        while True:
            task_id = f"T-{count_up(self, 'task')}"
            if self.task(task_id) is None:
                return task_id

    @change
    def add_task(self, task: TaskRow) -> TaskRow | None:
        """Add a task at the end; an empty id gets the next free one, a taken one gives None."""
        task_id = task.task_id or self.reserve_task_id()
        added = task._replace(task_id=task_id, position=count_up(self, "position"))
        return added if self.execute("insert_task", added).rowcount else None

    @change
    def swap_task(self, before: TaskRow, after: TaskRow, move: MoveRow | None = None) -> bool:
        """Change a task's lane, owner and claim if they still are as in `before`."""
        values = after._asdict() | {
            "seen_lane": before.lane,
            "seen_claim_id": before.claim_id,
            "seen_lease_until": before.lease_until,
        }
        if not self.execute("swap_task", values).rowcount:
            return False
        if move:
            last = self.all("last_task_move", task_id=move.task_id)[0][0]
            self.execute("insert_task_move", move._replace(seq=(last or 0) + 1))
        return True

    @change
    def link_task(self, task_id: str, depends_on: str) -> tuple[str, ...]:
        """Make a task wait for another; a circle is refused and returned."""
        circle = self._path(depends_on, task_id)
        if not circle:
            self.execute("link_task", {"task_id": task_id, "depends_on": depends_on})
        return circle

    def unlink_task(self, task_id: str, depends_on: str) -> bool:
        """Let a task wait no longer; False when it did not."""
        values = {"task_id": task_id, "depends_on": depends_on}
        return self.execute("unlink_task", values).rowcount > 0

    @change
    def adopt_tasks(self, tasks: Sequence[TaskRow], links: Sequence[tuple[str, str]]) -> None:
        """Make a mission's tasks be as their files describe them; lanes and claims stay."""
        for task in tasks:
            if self.add_task(task) is None:
                self.execute("define_task", task._asdict())
            self.execute("unlink_siblings", {"task_id": task.task_id, "mission": task.mission})
        for task_id, depends_on in links:
            self.execute("link_task", {"task_id": task_id, "depends_on": depends_on})

    def claim_check(self, row: TaskClaimRow) -> None:
        """Write down what a letter says of a task's check; the latest word counts."""
        self.execute("claim_check", row)

    def reserve_files(self, rows: Sequence[ReservationRow]) -> None:
        """Keep files to a task."""
        self.executemany("reserve_files", rows)

    def unreserve_files(self, task_id: str) -> int:
        """Let a task's files go; return how many patterns there were."""
        return self.execute("unreserve_files", {"task_id": task_id}).rowcount

    def report_step(self, row: MissionStepRow) -> None:
        """Remember that a mission's step failed or is blocked."""
        self.execute("report_step", row)

    def clear_step(self, mission: str, step: str) -> bool:
        """Forget what was reported of a mission's step; False when it was nothing."""
        return self.execute("clear_step", {"mission": mission, "step": step}).rowcount > 0

    def _path(self, start: str, goal: str) -> tuple[str, ...]:
        """Return the dependencies from `start` to `goal`, both included, or nothing."""
        pending: list[tuple[str, ...]] = [(start,)]
        seen = {start}
        while pending:
            path = pending.pop()
            if path[-1] == goal:
                return path
            for (needed,) in self.all("needed_by", task_id=path[-1]):
                if needed not in seen:
                    seen.add(needed)
                    pending.append((*path, needed))
        return ()


def count_up(tx: Writing, name: str) -> int:
    """Return the next number of a counter, inside a transaction."""
    return int(tx.execute("count_up", {"name": name}).fetchone()[0])
