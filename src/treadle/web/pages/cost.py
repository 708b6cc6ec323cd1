"""Cost: tokens, money and minutes, by agent, model and day."""

from datetime import date, timedelta
from typing import cast

from treadle.engine import costs
from treadle.web import plot
from treadle.web.site import Asked, Document, Site

_DAYS = 30
_UNITS = {"cost_usd": "USD", "tokens": "tokens", "minutes": "minutes"}


def document(site: Site, asked: Asked) -> Document:
    """Return what `treadle runs cost --json` gives."""
    days = min(max(asked.number("days", _DAYS), 1), costs.MAX_DAYS)
    with site.store() as store:
        return costs.document(store, days, site.now())


def view(site: Site, asked: Asked, found: Document) -> Document:
    """Draw one of the numbers: what was asked for, else money if any was told."""
    by_day = cast(list[dict[str, object]], found["by_day"])
    points = [(date.fromisoformat(str(row["day"])), _numbers(row)) for row in by_day]
    default = "cost_usd" if any(numbers["cost_usd"] for _, numbers in points) else "minutes"
    what = asked.fields.get("plot", default)
    what = what if what in _UNITS else default
    last = site.now().date()
    first = last - timedelta(days=int(str(found["days"])) - 1)
    values = [(day, numbers[what]) for day, numbers in points]
    drawn = plot.draw(values, first, last, _UNITS[what])
    return {"plot": drawn, "plotted": what}


def _numbers(row: dict[str, object]) -> dict[str, float]:
    found = {name: float(str(row[name])) for name in ("cost_usd", "minutes")}
    tokens = float(str(row["input_tokens"])) + float(str(row["output_tokens"]))
    return found | {"tokens": tokens}
