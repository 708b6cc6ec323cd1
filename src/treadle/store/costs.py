"""Count what steps cost by day, agent and model as they are committed, so that sums are cheap."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from treadle.store.backend import Connection
from treadle.store.codec import kept_in
from treadle.store.queries import SQL
from treadle.store.reading import Reading
from treadle.store.rows.run import StepRow, UsageRow


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


def since(store: Reading, day: str) -> list[CostRow]:
    """Return what was spent on this day and later, day by day."""
    return [CostRow._make(row) for row in store._all("costs", day=day)]


def tally(steps: Sequence[StepRow], usage: Sequence[UsageRow]) -> list[CostRow]:
    """Return what steps count for."""
    used = {item.step_index: item for item in usage}
    return [_cost(step, used.get(step.step_index)) for step in steps]


def uncount(tx: Connection, run_id: str) -> None:
    """Take back what a run's steps count for, because they are about to be written anew."""
    values = {"run_id": run_id}
    steps = [StepRow._make(row) for row in tx.execute(SQL["steps"], values).fetchall()]
    usage = [UsageRow._make(row) for row in tx.execute(SQL["usage"], values).fetchall()]
    tx.executemany(SQL["count_cost"], [_negative(row) for row in tally(steps, usage)])


def _cost(step: StepRow, used: UsageRow | None) -> CostRow:
    return CostRow(
        day=step.started_at[:10],
        agent=step.agent or "",
        model=(used.model if used else None) or "",
        steps=1,
        input_tokens=(used.input_tokens if used else None) or 0,
        cached_tokens=(used.cached_tokens if used else None) or 0,
        output_tokens=(used.output_tokens if used else None) or 0,
        cost_usd=(used.cost_usd if used else None) or 0.0,
        seconds=_seconds(step),
    )


def _seconds(step: StepRow) -> float:
    if step.ended_at is None:
        return 0.0
    begun, ended = (datetime.fromisoformat(it) for it in (step.started_at, step.ended_at))
    return max((ended - begun).total_seconds(), 0.0)


def _negative(row: CostRow) -> CostRow:
    return CostRow._make([*row[:3], *(-number for number in row[3:])])
