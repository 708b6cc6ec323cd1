"""Add up what a step's calls of a tool have used."""

from collections.abc import Sequence
from dataclasses import replace

from treadle.agents.backend import Usage

_MILLION = 1_000_000


def total(
    calls: Sequence[Usage | None],
    cumulative: tuple[str, ...],
    prices: tuple[float, float, float] | None,
) -> Usage | None:
    """Return the sum; of counters that went on counting in a later call, the last value."""
    known = [item for item in calls if item]
    if not known:
        return None
    last = known[-1]
    tokens = [last] if "tokens" in cumulative else known
    found = Usage(
        model=last.model,
        input_tokens=sum(item.input_tokens for item in tokens),
        cached_tokens=sum(item.cached_tokens for item in tokens),
        output_tokens=sum(item.output_tokens for item in tokens),
        cost_usd=last.cost_usd if "cost" in cumulative else sum(i.cost_usd for i in known),
    )
    return replace(found, cost_usd=priced(found, prices)) if prices else found


def priced(usage: Usage, prices: tuple[float, float, float]) -> float:
    """Return what the tokens cost; cached ones are part of the input."""
    fresh = max(usage.input_tokens - usage.cached_tokens, 0)
    parts = zip((fresh, usage.cached_tokens, usage.output_tokens), prices, strict=True)
    return round(sum(count * price for count, price in parts) / _MILLION, 6)
