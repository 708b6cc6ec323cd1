"""Read runs, their steps and events."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from treadle.layout import step_name
from treadle.store.codec import Row
from treadle.store.reading import Reading
from treadle.store.rows.check import CheckRow, to_check
from treadle.store.rows.run import Event, RunRow, StepRow, UsageRow, to_event

if TYPE_CHECKING:
    from treadle.contract.role import RunStatus

_ALL = 1 << 62
# Sorts after every run id.
_END = "~"


class RunReader(Reading):
    """Answer questions about runs."""

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

    def runs_like(
        self, text: str, limit: int, before: str | None = None, status: RunStatus | None = None
    ) -> list[RunRow]:
        """Return a page of the runs whose id, goal and task have a text's words in this order."""
        words = re.sub(r"[!%_]", r"!\g<0>", text.lower()).split()
        like = f"%{'%'.join(words)}%"
        rows = self._all(
            "runs_page_like", like=like, limit=limit, before=before or _END, status=status or "%"
        )
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
        return [to_event(row) for row in rows]

    def event_rows(self, run_id: str, after: int, limit: int) -> list[Row]:
        """Return a page of events as they are stored, their data as JSON text."""
        return self._all("events", run_id=run_id, after=after, limit=limit)

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
        return [to_check(row) for row in self._all("checks", run_id=run_id)]

    def observed(self, run_id: str, tree: str, command: str) -> CheckRow | None:
        """Return what a command's check gave on a tree the last time, to reuse it."""
        row = self._one("observed", run_id=run_id, tree=tree, command=command)
        return to_check(row) if row else None
