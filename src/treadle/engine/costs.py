"""Sum up what agents have cost, by agent, model and day."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from treadle.ids import utc
from treadle.store.runs import CostRow
from treadle.store.store import Reader

MAX_DAYS = 3650


def document(store: Reader, days: int, now: datetime) -> dict[str, object]:
    """Return the sums of the last days, today with them."""
    first = utc(now - timedelta(days=days - 1))[:10]
    rows = store.costs(first)
    return {
        "days": days,
        "total": _sum(rows),
        "by_agent": _grouped("agent", rows),
        "by_model": _grouped("model", rows),
        "by_day": _grouped("day", rows),
    }


def _grouped(name: str, rows: Iterable[CostRow]) -> list[dict[str, object]]:
    found: dict[str, list[CostRow]] = defaultdict(list)
    for row in rows:
        found[getattr(row, name)].append(row)
    return [{name: key or None} | _sum(found[key]) for key in sorted(found)]


def _sum(rows: Sequence[CostRow]) -> dict[str, object]:
    return {
        "steps": sum(row.steps for row in rows),
        "input_tokens": sum(row.input_tokens for row in rows),
        "cached_tokens": sum(row.cached_tokens for row in rows),
        "output_tokens": sum(row.output_tokens for row in rows),
        "cost_usd": round(sum(row.cost_usd for row in rows), 6),
        "minutes": round(sum(row.seconds for row in rows) / 60, 3),
    }
