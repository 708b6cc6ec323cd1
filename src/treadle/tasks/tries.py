"""Several runs of one thing side by side: which belong together, which is best, which is over.

Tasks stand below the engine, so these few fields of a run's memory are read here, by their keys.
"""

from math import inf
from typing import Any, NamedTuple

from treadle.store.runs import RunRow
from treadle.store.store import Reader, Transaction

Rows = Reader | Transaction
TRIAL = "trial"  # the key under which a run remembers that it is one of several


class Trial(NamedTuple):
    """What makes a run one of several: the set they form, whose work it is, how much it changed."""

    set: str
    agent: str
    lines: int | None = None  # once it has ended


class Contender(NamedTuple):
    """One of several runs, and what it is measured by."""

    row: RunRow
    trial: Trial
    failing: tuple[str, ...] | None  # in the last check; None before any
    protected: tuple[str, ...]
    cost_usd: float | None  # None where a tool used tokens and told no cost
    tokens: int

    @property
    def order(self) -> tuple[float | str, ...]:
        """Return what the best has least of."""
        return (
            inf if self.failing is None else len(self.failing),
            bool(self.protected),
            self.row.status != "passed",
            self.row.iteration,
            inf if self.cost_usd is None else self.cost_usd,
            inf if self.trial.lines is None else self.trial.lines,
            self.row.run_id,
        )


def is_landed(store: Rows, row: RunRow) -> bool:
    """Tell whether a run's work is in the user's branch."""
    landed, undone = (store.kv_value(row.run_id, key) for key in ("landed", "undone"))
    return landed is not None and undone is None


def is_queued(store: Rows, row: RunRow) -> bool:
    """Tell whether a run waits for a worker of the fleet."""
    return row.status == "stopped" and store.kv_value(row.run_id, "reason_code") == "queued"


def word(store: Rows, row: RunRow) -> str:
    """Return how a person is told that a run stands."""
    return "queued" if is_queued(store, row) else row.status


def trial_of(store: Rows, run_id: str) -> Trial | None:
    """Return what a run remembers of the set it belongs to."""
    found = store.kv_value(run_id, TRIAL)
    return Trial(**found) if isinstance(found, dict) else None


def of_set(store: Rows, name: str, task_id: str | None) -> list[RunRow]:
    """Return the runs of a set, oldest first."""
    ids = [] if task_id else sorted(store.runs_with_key(TRIAL))
    rows = store.task_runs(task_id) if task_id else [*filter(None, map(store.run, ids))]
    known = ((row, trial_of(store, row.run_id)) for row in rows)
    return [row for row, trial in known if trial and trial.set == name]


def beside(store: Rows, row: RunRow) -> list[RunRow]:
    """Return the other runs of a run's set."""
    trial = trial_of(store, row.run_id)
    rows = of_set(store, trial.set, row.task_id) if trial else []
    return [it for it in rows if it.run_id != row.run_id]


def ranked(store: Rows, row: RunRow) -> list[Contender]:
    """Return the runs of a run's set, the best first; a run that is alone has none."""
    trial = trial_of(store, row.run_id)
    rows = of_set(store, trial.set, row.task_id) if trial else []
    return sorted((_contender(store, it) for it in rows), key=lambda it: it.order)


def chosen(store: Rows, row: RunRow) -> RunRow | None:
    """Return the run of a set that has landed, or else the best that has passed."""
    passed = [it.row for it in ranked(store, row) if it.row.status == "passed"]
    landed = [it for it in passed if is_landed(store, it)]
    return next(iter((*landed, *passed)), None)


def successor(store: Rows, row: RunRow) -> RunRow | None:
    """Return the run of a run's set that has landed instead of it."""
    return next((it for it in beside(store, row) if is_landed(store, it)), None)


def _contender(store: Rows, row: RunRow) -> Contender:
    kv: dict[str, Any] = store.kv(row.run_id)
    failing = None if row.verdict is None and row.status != "passed" else kv.get("failing") or ()
    spent = kv.get("spent") or {}
    cost, tokens = float(spent.get("cost_usd") or 0), int(spent.get("tokens") or 0)
    return Contender(
        row=row,
        trial=Trial(**kv[TRIAL]),
        failing=() if row.status == "passed" else failing and tuple(failing),
        protected=tuple((kv.get("protected") or {}).get("files") or ()),
        cost_usd=cost if cost or not tokens else None,
        tokens=tokens,
    )
