"""Sum up what agents have used and cost: of one run, and by agent, model and day."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from treadle.ids import utc
from treadle.store.runs import CostRow, UsageRow
from treadle.store.store import Reader

MAX_DAYS = 3650


def cost_document(store: Reader, days: int, now: datetime) -> dict[str, object]:
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


def total_usage(rows: Sequence[UsageRow]) -> dict[str, object]:
    """Return the sums over all steps."""
    return {
        "input_tokens": sum(item.input_tokens or 0 for item in rows),
        "cached_tokens": sum(item.cached_tokens or 0 for item in rows),
        "output_tokens": sum(item.output_tokens or 0 for item in rows),
        "cost_usd": sum(item.cost_usd or 0.0 for item in rows),
    }


def usage_words(rows: Sequence[UsageRow]) -> str | None:
    """Say it in words, or nothing if no tool has told."""
    if not rows:
        return None
    found = total_usage(rows)
    text = f"{found['input_tokens']} tokens in, {found['output_tokens']} out"
    return f"{text}, ${found['cost_usd']:.2f}" if found["cost_usd"] else text
