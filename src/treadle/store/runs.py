"""Runs, their steps, events and costs: what the store knows of them and how it changes."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from treadle.contract import Role, RunStatus, StepStatus, VerdictWord
from treadle.errors import FencedError, NotFoundError
from treadle.ids import utc
from treadle.layout import step_name
from treadle.store.transaction import Reading, Row, Writing, change, kept_in, to_json

Phase = Literal["before", "check"]

STOP_REQUESTED = "stop_requested"

_ALL = 1 << 62
# Sorts after every run id.
_END = "~"
_CLEAR = ("clear_steps", "clear_events", "clear_kv", "clear_usage", "clear_checks")


@kept_in("runs")
class RunRow(NamedTuple):
    """One run; `owner` is the encoded identity of the process that drives it."""

    run_id: str
    created_at: str
    goal: str
    status: RunStatus
    iteration: int
    current_step_index: int
    verdict: VerdictWord | None
    run_dir: str
    task_id: str | None = None
    message_id: str | None = None
    routine: str | None = None
    base_commit: str | None = None
    base_branch: str | None = None
    branch: str | None = None
    head_commit: str | None = None
    claim_epoch: int = 0
    owner: str | None = None
    ended_at: str | None = None


class Cursor(NamedTuple):
    """Where a run stands: the part of its row that every commit may change."""

    status: RunStatus
    iteration: int
    current_step_index: int
    verdict: VerdictWord | None = None
    head_commit: str | None = None
    ended_at: str | None = None


@kept_in("steps")
class StepRow(NamedTuple):
    """One committed step; `digest` is the sha256 of its step.json.

    `archive` names the archive of its folder where other machines can read it.
    """

    run_id: str
    step_index: int
    role: Role
    iteration: int
    status: StepStatus
    step_dir: str
    started_at: str
    ended_at: str | None = None
    summary: str | None = None
    agent: str | None = None
    error_code: str | None = None
    before_commit: str | None = None
    after_commit: str | None = None
    tree: str | None = None
    sandbox_tier: str | None = None
    digest: str | None = None
    archive: str | None = None
    archive_sha256: str | None = None


@kept_in("events", data=lambda text: text and json.loads(text))
class Event(NamedTuple):
    """One line of a run's timeline."""

    seq: int
    ts: str
    type: str
    message: str
    data: Mapping[str, object] | None = None


@kept_in("usage")
class UsageRow(NamedTuple):
    """What one agent of a step spent, as far as its tool says; a step that was cut off is 0."""

    run_id: str
    step_index: int
    agent: str
    model: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None


@kept_in("checks", passed=bool)
class CheckRow(NamedTuple):
    """What treadle saw when it ran one criterion's command on one tree."""

    run_id: str
    step_index: int
    criterion_id: str
    phase: Phase
    command: str
    tree: str | None
    passed: bool
    exit_code: int | None
    seconds: float
    log: str | None = None
    note: str | None = None


@kept_in("costs")
class CostRow(NamedTuple):
    """What one agent's steps with one model cost on one day; a model nobody told is empty."""

    day: str
    agent: str
    model: str
    steps: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: float
    seconds: float


class History(NamedTuple):
    """What the store knows about one run beside its row; None as a kv value removes the key."""

    steps: Sequence[StepRow] = ()
    events: Sequence[Event] = ()
    kv: Mapping[str, object] = {}
    usage: Sequence[UsageRow] = ()
    checks: Sequence[CheckRow] = ()


class RunReader(Reading):
    """Answer questions about runs."""

    def run(self, run_id: str) -> RunRow | None:
        """Return one run."""
        return self.first(RunRow, "run", run_id=run_id)

    def runs(
        self, limit: int, before: str | None = None, status: RunStatus | None = None, text: str = ""
    ) -> list[RunRow]:
        """Return a page of runs, newest first; `before` is the last id of the page before.

        Only those whose id, goal and task have a text's words in this order.
        """
        words = re.sub(r"[!%_]", r"!\g<0>", text.lower()).split()
        name = "runs_page_like" if words else "runs_page_by_status" if status else "runs_page"
        values = {"limit": limit, "before": before or _END, "like": f"%{'%'.join(words)}%"}
        return self.records(RunRow, name, **values, status=status)

    def run_counts(self) -> dict[str, int]:
        """Return how many runs there are in each state."""
        return {row[0]: int(row[1]) for row in self.all("runs_by_status")}

    def running(self) -> list[RunRow]:
        """Return the runs that are under way, or were when their process died."""
        return self.records(RunRow, "runs_with_status", status="running")

    def unsettled(self) -> list[RunRow]:
        """Return the runs that have ended while a process still says it drives them."""
        return self.records(RunRow, "runs_unsettled")

    def find_runs(self, prefix: str, limit: int) -> list[RunRow]:
        """Return the runs whose id begins with `prefix`, newest first."""
        values = {"prefix": prefix, "bound": prefix + _END, "limit": limit}
        return self.records(RunRow, "runs_with_prefix", **values)

    def task_runs(self, task_id: str) -> list[RunRow]:
        """Return the runs of one task, oldest first."""
        return self.records(RunRow, "runs_of_task", task_id=task_id)

    def run_ids(self) -> list[str]:
        """Return every run's id."""
        return [row[0] for row in self.all("run_ids")]

    def last_run_id(self) -> str | None:
        """Return the newest run's id."""
        row = self.one("last_run_id")
        return row[0] if row else None

    def steps(self, run_id: str) -> list[StepRow]:
        """Return a run's steps in order."""
        return self.records(StepRow, "steps", run_id=run_id)

    def step_names(self) -> dict[str, set[str]]:
        """Return the folder names of every run's steps."""
        found: dict[str, set[str]] = {}
        for run_id, index, role in self.all("step_names"):
            found.setdefault(run_id, set()).add(step_name(index, role))
        return found

    def events(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return a run's events with a greater number than `after`."""
        size = _ALL if limit is None else limit
        return self.records(Event, "events", run_id=run_id, after=after, limit=size)

    def event_rows(self, run_id: str, after: int, limit: int) -> list[Row]:
        """Return a page of events as they are stored, their data as JSON text."""
        return self.all("events", run_id=run_id, after=after, limit=limit)

    def last_seq(self, run_id: str) -> int:
        """Return the number of a run's last event."""
        row = self.one("last_seq", run_id=run_id)
        return int(row[0] or 0) if row else 0

    def kv(self, run_id: str) -> dict[str, object]:
        """Return what a run remembers."""
        return {key: json.loads(value) for key, value in self.all("kv", run_id=run_id)}

    def kv_value(self, run_id: str, key: str) -> object:
        """Return one thing that a run remembers, or None."""
        row = self.one("kv_value", run_id=run_id, key=key)
        return json.loads(row[0]) if row else None

    def runs_with_key(self, key: str) -> list[str]:
        """Return the runs that remember something under this key."""
        return [row[0] for row in self.all("runs_with_key", key=key)]

    def usage(self, run_id: str) -> list[UsageRow]:
        """Return what a run's agents spent, step by step."""
        return self.records(UsageRow, "usage", run_id=run_id)

    def checks(self, run_id: str) -> list[CheckRow]:
        """Return everything that was observed in a run."""
        return self.records(CheckRow, "checks", run_id=run_id)

    def observed(self, run_id: str, tree: str, command: str) -> CheckRow | None:
        """Return what a command's check gave on a tree the last time, to reuse it."""
        return self.first(CheckRow, "observed", run_id=run_id, tree=tree, command=command)

    def costs(self, day: str) -> list[CostRow]:
        """Return what was spent on this day and later, day by day."""
        return self.records(CostRow, "costs", day=day)


class RunStore(RunReader, Writing):
    """Change runs."""

    def insert_run(
        self, run: RunRow, events: Sequence[Event], kv: Mapping[str, object], lasting: bool = True
    ) -> None:
        """Begin a run; one whose folder is durable need not be `lasting` before its first step."""

        def apply(tx: RunStore) -> None:
            tx.execute("insert_run", run)
            tx.append(run.run_id, History(events=events, kv=kv))

        self.write(apply, lasting=lasting)

    def advance(
        self, run_id: str, history: History, cursor: Cursor, epoch: int, releases: bool = False
    ) -> None:
        """Move the cursor and add what came with it, if `epoch` still owns the run.

        It `releases` a run that it ends and that nothing is left to do for.
        """

        def apply(tx: RunStore) -> None:
            # The run's row is locked first, so whoever else wants this run waits.
            values = cursor._asdict() | {"run_id": run_id, "epoch": epoch}
            if not tx.execute("move_cursor", values).rowcount:
                raise _fenced(tx, run_id, epoch)
            tx.append(run_id, history)
            if releases:
                tx.release(run_id, epoch)

        self.write(apply, alone=False)

    def move_base(self, run_id: str, commit: str, epoch: int) -> None:
        """Let the owner's run begin at another commit."""
        values = {"run_id": run_id, "base_commit": commit, "epoch": epoch}
        self.execute("move_base", values)

    @change
    def append(self, run_id: str, history: History) -> None:
        """Add steps, events and what belongs to them."""
        kv = history.kv.items()
        self.executemany("insert_step", history.steps)
        self.executemany("insert_event", [(run_id, *event) for event in history.events])
        self.executemany("insert_usage", history.usage)
        self.executemany("count_cost", _costs_of(history.steps, history.usage))
        self.executemany("insert_check", history.checks)
        self.executemany("set_kv", [(run_id, key, to_json(it)) for key, it in kv if it is not None])
        self.executemany("unset_kv", [(run_id, key) for key, it in kv if it is None])

    def take_over(self, run_id: str, owner: str | None) -> int:
        """Give a run a new owner and return its epoch; every older one is fenced off."""

        def apply(tx: RunStore) -> int:
            row = tx.execute("take_over", {"run_id": run_id, "owner": owner}).fetchone()
            if row is None:
                raise _unknown(run_id)
            return int(row[0])

        return self.write(apply, alone=False)

    def release(self, run_id: str, epoch: int, owner: str | None = None) -> None:
        """Say that no process drives a run any more; `owner` has something left to do for it."""

        def apply(tx: RunStore) -> None:
            values = {"run_id": run_id, "epoch": epoch, "owner": owner}
            if not tx.execute("release_run", values).rowcount:
                raise _fenced(tx, run_id, epoch)

        # Recovery does it again for an owner that is gone, but not for one that lives on.
        self.write(apply, lasting=owner is not None)

    def request_stop(self, run_id: str, reason: str, now: datetime) -> None:
        """Ask a run's owner to stop, through the key `stop_requested`."""
        self.leave(run_id, STOP_REQUESTED, {"reason": reason, "at": utc(now)})

    @change
    def leave(self, run_id: str, key: str, note: Mapping[str, object]) -> None:
        """Leave a note that a run's owner will find; its timeline stays the owner's."""
        if self.run(run_id) is None:
            raise _unknown(run_id)
        self.append(run_id, History(kv={key: note}))

    @change
    def restore(self, run: RunRow, history: History) -> None:
        """Make a run be exactly what its files say, whatever the store held."""
        self.execute("upsert_run", run)
        counted = _costs_of(self.steps(run.run_id), self.usage(run.run_id))
        self.executemany("count_cost", [(*row[:3], *(-it for it in row[3:])) for row in counted])
        for name in _CLEAR:
            self.execute(name, {"run_id": run.run_id})
        self.append(run.run_id, history)

    def delete_run(self, run_id: str) -> bool:
        """Forget a run and everything that belongs to it; False when there is none."""
        return self.execute("delete_run", {"run_id": run_id}).rowcount > 0


CUT_OFF = 0  # the index of what was used by a step that never ended


def _costs_of(steps: Sequence[StepRow], usage: Sequence[UsageRow]) -> list[CostRow]:
    """Return what steps and their agents count for, so that sums are cheap."""
    days = {step.step_index: step.started_at[:10] for step in steps}
    models = {(item.step_index, item.agent): item.model for item in usage}
    counted = [
        CostRow(days[number], agent, models.get((number, agent)) or "", 1, 0, 0, 0, 0.0, time)
        for number, agent, time in ((it.step_index, it.agent or "", _seconds(it)) for it in steps)
    ]
    known = [item for item in usage if item.step_index in (CUT_OFF, *days)]
    return [*counted, *(_cost(days.get(item.step_index), item) for item in known)]


def _cost(day: str | None, used: UsageRow) -> CostRow:
    """Return what an agent's usage counts for; what was cut off, with its time on its run's day."""
    run, cost = used.run_id, used.cost_usd or 0.0
    tokens = (used.input_tokens or 0, used.cached_tokens or 0, used.output_tokens or 0)
    spent = (*tokens, cost, 0.0 if day else used.seconds or 0.0)
    return CostRow(
        day or f"{run[:4]}-{run[4:6]}-{run[6:8]}", used.agent, used.model or "", 0, *spent
    )


def _seconds(step: StepRow) -> float:
    if step.ended_at is None:
        return 0.0
    begun, ended = (datetime.fromisoformat(it) for it in (step.started_at, step.ended_at))
    return max((ended - begun).total_seconds(), 0.0)


def _fenced(tx: RunReader, run_id: str, epoch: int) -> FencedError | NotFoundError:
    run = tx.run(run_id)
    if run is None:
        return _unknown(run_id)
    return FencedError(
        f"run {run_id} was taken over by another process; what this one did is not recorded",
        fix=[f"treadle runs show {run_id}"],
        details={"run_id": run_id, "epoch": epoch, "claim_epoch": run.claim_epoch},
    )


def _unknown(run_id: str) -> NotFoundError:
    return NotFoundError(f"there is no run {run_id}", fix=["treadle runs list"])
