"""Read the store; a missing database reads as an empty one."""

import json
import os
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from treadle.contract.role import RunStatus
from treadle.layout import Layout, step_name
from treadle.store import address, codec, opening
from treadle.store.backend import Connection, Database
from treadle.store.inbox import InboxReads
from treadle.store.queries import SQL
from treadle.store.records import (
    CheckRow,
    Event,
    LaneRow,
    MissionStepRow,
    MoveRow,
    QuestionRow,
    RunRow,
    StepRow,
    TaskRow,
    UsageRow,
)

_ALL = 1 << 62
# Sorts after every run id.
_END = "~"


class Reader(InboxReads):
    """Answer questions about runs, tasks and the desk; never wait for a writer, never write."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._reading = connection
        self._database = database

    @classmethod
    def open(cls, layout: Layout, env: Mapping[str, str] = os.environ) -> Self:
        """Open the project's store, or an empty one if nothing was ever recorded."""
        database = address.find(layout, env)
        return cls(opening.open_reader(database), database)

    @classmethod
    def at(cls, database: Database) -> Self:
        """Open a store that may belong to no folder here."""
        return cls(opening.open_reader(database), database)

    def now(self) -> datetime:
        """Return the time that leases go by: the database's own, where many machines share it."""
        return self._database.now()

    def close(self) -> None:
        """Give the connection back."""
        self._reading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, run_id: str) -> RunRow | None:
        """Return one run."""
        row = self._one("run", run_id=run_id)
        return RunRow._make(row) if row else None

    def runs(
        self, limit: int, before: str | None = None, status: RunStatus | None = None
    ) -> list[RunRow]:
        """Return a page of runs, newest first; `before` is the last id of the page before."""
        name = "runs_page_by_status" if status else "runs_page"
        rows = self._all(name, limit=limit, before=before or _END, status=status)
        return [RunRow._make(row) for row in rows]

    def running(self) -> list[RunRow]:
        """Return the runs that are under way, or were when their process died."""
        return [RunRow._make(row) for row in self._all("runs_with_status", status="running")]

    def unsettled(self) -> list[RunRow]:
        """Return the runs that have ended while a process still says it drives them."""
        return [RunRow._make(row) for row in self._all("runs_unsettled")]

    def find_runs(self, prefix: str, limit: int) -> list[RunRow]:
        """Return the runs whose id begins with `prefix`, newest first."""
        rows = self._all("runs_with_prefix", prefix=prefix, bound=prefix + _END, limit=limit)
        return [RunRow._make(row) for row in rows]

    def task_runs(self, task_id: str) -> list[RunRow]:
        """Return the runs of one task, oldest first."""
        return [RunRow._make(row) for row in self._all("runs_of_task", task_id=task_id)]

    def run_ids(self) -> list[str]:
        """Return every run's id."""
        return [row[0] for row in self._all("run_ids")]

    def last_run_id(self) -> str | None:
        """Return the newest run's id."""
        row = self._one("last_run_id")
        return row[0] if row else None

    def steps(self, run_id: str) -> list[StepRow]:
        """Return a run's steps in order."""
        return [StepRow._make(row) for row in self._all("steps", run_id=run_id)]

    def step_names(self) -> dict[str, set[str]]:
        """Return the folder names of every run's steps."""
        found: dict[str, set[str]] = {}
        for run_id, index, role in self._all("step_names"):
            found.setdefault(run_id, set()).add(step_name(index, role))
        return found

    def events(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return a run's events with a greater number than `after`."""
        size = _ALL if limit is None else limit
        rows = self._all("events", run_id=run_id, after=after, limit=size)
        return [codec.event(row) for row in rows]

    def last_seq(self, run_id: str) -> int:
        """Return the number of a run's last event."""
        row = self._one("last_seq", run_id=run_id)
        return int(row[0] or 0) if row else 0

    def kv(self, run_id: str) -> dict[str, object]:
        """Return what a run remembers."""
        return {key: json.loads(value) for key, value in self._all("kv", run_id=run_id)}

    def kv_value(self, run_id: str, key: str) -> object:
        """Return one thing that a run remembers, or None."""
        row = self._one("kv_value", run_id=run_id, key=key)
        return json.loads(row[0]) if row else None

    def runs_with_key(self, key: str) -> list[str]:
        """Return the runs that remember something under this key."""
        return [row[0] for row in self._all("runs_with_key", key=key)]

    def usage(self, run_id: str) -> list[UsageRow]:
        """Return what a run's agents spent, step by step."""
        return [UsageRow._make(row) for row in self._all("usage", run_id=run_id)]

    def checks(self, run_id: str) -> list[CheckRow]:
        """Return everything that was observed in a run."""
        return [codec.check(row) for row in self._all("checks", run_id=run_id)]

    def observed(self, run_id: str, tree: str, command: str) -> CheckRow | None:
        """Return what a command's check gave on a tree the last time, to reuse it."""
        row = self._one("observed", run_id=run_id, tree=tree, command=command)
        return codec.check(row) if row else None

    def task(self, task_id: str) -> TaskRow | None:
        """Return one task."""
        row = self._one("task", task_id=task_id)
        return codec.task(row) if row else None

    def tasks(self, lane: str | None = None) -> list[TaskRow]:
        """Return the tasks, or those in one lane, in order."""
        rows = self._all("tasks_in_lane", lane=lane) if lane else self._all("tasks")
        return [codec.task(row) for row in rows]

    def tasks_to_renew(self, owner: str, now: str, soon: str) -> list[TaskRow]:
        """Return an owner's tasks whose lease ends soon."""
        rows = self._all("tasks_to_renew", owner=owner, now=now, soon=soon)
        return [codec.task(row) for row in rows]

    def task_ids(self) -> list[str]:
        """Return every task's id."""
        return [row[0] for row in self._all("task_ids")]

    def ready_tasks(self, now: str) -> list[TaskRow]:
        """Return the planned tasks that nobody holds and that wait for nothing, in order."""
        return [codec.task(row) for row in self._all("ready_tasks", now=now)]

    def dependencies(self, task_id: str) -> list[TaskRow]:
        """Return the tasks that must be done before this one."""
        return [codec.task(row) for row in self._all("dependencies", task_id=task_id)]

    def dependents(self, task_id: str) -> list[TaskRow]:
        """Return the tasks that wait for this one."""
        return [codec.task(row) for row in self._all("dependents", task_id=task_id)]

    def task_moves(self, task_id: str) -> list[MoveRow]:
        """Return how a task went from lane to lane."""
        return [codec.move(row) for row in self._all("task_moves", task_id=task_id)]

    def mission_lanes(self, mission: str) -> list[LaneRow]:
        """Return where the tasks of a mission stand."""
        return [LaneRow._make(row) for row in self._all("mission_lanes", mission=mission)]

    def mission_steps(self, mission: str) -> list[MissionStepRow]:
        """Return what was reported of a mission's steps that are not done."""
        rows = [MissionStepRow._make(row) for row in self._all("mission_steps", mission=mission)]
        return [row._replace(is_blocked=bool(row.is_blocked)) for row in rows]

    def question(self, question_id: str) -> QuestionRow | None:
        """Return one question."""
        row = self._one("question", question_id=question_id)
        return codec.question(row) if row else None

    def questions(self, open_only: bool = True) -> list[QuestionRow]:
        """Return what waits for a human, oldest first, or everything that ever did."""
        rows = self._all("open_questions" if open_only else "questions")
        return [codec.question(row) for row in rows]

    def question_ids(self) -> list[str]:
        """Return every question's id."""
        return [row[0] for row in self._all("question_ids")]

    def _one(self, name: str, **values: object) -> codec.Row | None:
        rows = self._all(name, **values)
        return rows[0] if rows else None

    def _all(self, name: str, **values: object) -> list[codec.Row]:
        try:
            return self._reading.execute(SQL[name], values).fetchall()
        except self._database.error as error:
            raise self._database.explain(error) from error
