"""Turn documents into pages: every value is text unless our own code has made it markup."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from treadle.text import block

_HERE = Path(__file__).parent
STATIC = _HERE / "static"
_STEPS = ((86400, "d"), (3600, "h"), (60, "min"))


def environment(filters: Mapping[str, Callable[..., object]]) -> Environment:
    """Return what renders our templates."""
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    ours = {
        "age": age,
        "until": until,
        "seconds": seconds,
        "bytes": size,
        "number": number,
        "amount": amount,
        "took": took,
    }
    found.filters.update({**ours, **filters})
    return found


def _shown(value: object) -> object:
    """Let no word on any page turn, hide or act; markup is made of such words."""
    return block(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def age(text: str | None, now: datetime) -> str:
    """Say how long ago something was: `3 min`."""
    then = moment(text)
    return seconds(max((now - then).total_seconds(), 0)) if then else ""


def until(text: str | None, now: datetime) -> str:
    """Say how long it is until something: `3 min`."""
    then = moment(text)
    return seconds(max((then - now).total_seconds(), 0)) if then else ""


def number(value: float) -> str:
    """Say a count so that its size can be seen: `12 345`."""
    return f"{value:,.0f}".replace(",", "\u202f")


def amount(value: float) -> str:
    """Say what was used of a budget: a count in full, a part of something in two digits."""
    return number(value) if value >= 10 or value == int(value) else f"{value:.2g}"


def took(step: Mapping[str, str | None]) -> str:
    """Say how long a step worked."""
    start, end = moment(step["started_at"]), moment(step["ended_at"])
    return seconds((end - start).total_seconds()) if start and end else ""


def seconds(value: float | None) -> str:
    """Say a time in the largest unit that fits."""
    if value is None:
        return ""
    for length, unit in _STEPS:
        if value >= length:
            return f"{value / length:.0f} {unit}"
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def size(value: float) -> str:
    """Say a number of bytes in the largest unit that fits."""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def moment(text: object) -> datetime | None:
    """Read a time of the store."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
