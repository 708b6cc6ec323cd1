"""Sum up what the agents of a run have used."""

from collections.abc import Sequence

from treadle.store.runs import UsageRow


def total(rows: Sequence[UsageRow]) -> dict[str, object]:
    """Return the sums over all steps."""
    return {
        "input_tokens": sum(item.input_tokens or 0 for item in rows),
        "cached_tokens": sum(item.cached_tokens or 0 for item in rows),
        "output_tokens": sum(item.output_tokens or 0 for item in rows),
        "cost_usd": sum(item.cost_usd or 0.0 for item in rows),
    }


def words(rows: Sequence[UsageRow]) -> str | None:
    """Say it in words, or nothing if no tool has told."""
    if not rows:
        return None
    found = total(rows)
    text = f"{found['input_tokens']} tokens in, {found['output_tokens']} out"
    return f"{text}, ${found['cost_usd']:.2f}" if found["cost_usd"] else text
