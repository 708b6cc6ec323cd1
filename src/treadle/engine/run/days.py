"""Say what all runs of a day have used together; quick commands ask, so it loads little."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from treadle.engine.run import memory
from treadle.engine.run.memory import RunMemory
from treadle.ids import day_begin, utc
from treadle.store.store import Reader
from treadle.store.transaction import Reading


class DayTotal(NamedTuple):
    """How many runs began, and what the steps that began cost."""

    runs: int
    cost_usd: float
    tokens: int


def today(store: Reading, now: datetime) -> DayTotal:
    """Return what all runs together have used on this day; run ids begin with their moment."""
    since = day_begin(now)
    first = since.astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    ((runs, cost, tokens),) = store.all("day_total", first=first, since=utc(since))
    return DayTotal(runs, round(cost, 6), tokens)


def day_end(now: datetime) -> datetime:
    """Return when the user's day ends."""
    return day_begin(day_begin(now) + timedelta(hours=36))


def recall(store: Reader, run_id: str) -> RunMemory:
    """Return what a run remembers; others may have used more of its day since it was stopped."""
    found = memory.recall(store, run_id)
    key, _, enough = (found.budget_needed or "").partition("=")
    if key != "night.max_cost_usd":
        return found
    least = max(float(enough), today(store, store.now()).cost_usd + 1)
    return found._replace(budget_needed=f"{key}={least:g}")
