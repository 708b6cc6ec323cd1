"""Turn documents into pages: every value is text unless our own code has made it markup."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from treadle.contract import ROLES
from treadle.ids import local
from treadle.text import block, plural
from treadle.web import foreign

_HERE = Path(__file__).parent
STATIC = _HERE / "static"
_STEPS = ((86400, "d"), (3600, "h"), (60, "min"))


def environment() -> Environment:
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
        "markdown": foreign.markdown_markup,
        "log": foreign.log_markup,
        "age": age,
        "until": until,
        "when": when,
        "seconds": seconds,
        "bytes": size,
        "number": "{:,.0f}".format,
        "amount": amount,
        "took": took,
        "tenths": "{:.1f}".format,
        "short": _short,
        "terminal": foreign.log_markup,
        "truncate": cut,
    }
    found.filters.update(ours)
    found.globals["log_url"] = log_url
    return found


def cut(text: str, length: int) -> str:
    """Return the beginning of a text; in an address and in many languages no blank ends a word."""
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


def log_url(run_id: str, name: str) -> str:
    """Return where a log of a run can be read; `name` is its place below the run's folder."""
    return f"/runs/{run_id}/log?file={quote(name)}"


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


def when(text: str | None, shape: str = "%Y-%m-%d %H:%M:%S %Z") -> Markup:
    """Say a moment in the zone of whoever reads: pages are shown on this machine alone."""
    if not text:
        return Markup("")
    shown = Markup('<time datetime="{0}" title="{1} UTC">{2}</time>')
    return shown.format(text, text[:19].replace("T", " "), local(text, shape))


def amount(value: float) -> str:
    """Say what was used of a budget: a count in full, a part of something to a hundredth."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"


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


def draw_days(
    days: Mapping[date, Mapping[str, float]], first: date, last: date, unit: str
) -> Markup:
    """Return a bar for each day from the first to the last, with a part for each agent."""
    every = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    most = max((sum(parts.values()) for parts in days.values()), default=0.0) or 1.0
    agents = sorted({name for parts in days.values() for name in parts if parts[name]})
    return _drawn("days.svg", days=every, values=days, most=most, unit=unit, agents=agents)


def _drawn(template: str, **about: object) -> Markup:
    return Markup(_PICTURES.get_template(template).render(about))


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


_WIDTH, _LEFT = 1000, 56
_GAP = 18.0  # what a long pause is drawn as
_PAUSE = 0.15  # share of the working time that makes a pause long
_NARROW = 3.0
_SIGNS = {
    **{"fail": "✗", "fails": "✗", "refuted": "≠", "stopped": "■", "running": "▸"},
    "skipped": "–",
}


class Bar(NamedTuple):
    """One step, or the one that works now."""

    number: int
    role: str
    iteration: int
    status: str
    start: datetime
    end: datetime
    summary: str

    @property
    def seconds(self) -> float:
        """Return how long it took."""
        return max((self.end - self.start).total_seconds(), 0.0)


def draw_timeline(bars: Sequence[Bar], href: Callable[[int], str] | None = None) -> Markup:
    """Return the picture; `href` says where a step's bar leads."""
    if not bars:
        return Markup("")
    bars = sorted(bars, key=lambda bar: (bar.start, bar.number))
    scale = _scale(bars)
    begun = {bar.iteration: scale.x(bar.start) for bar in reversed(bars)}
    return _drawn(
        "timeline.svg",
        width=_WIDTH,
        label=plural(len(bars), "step"),
        roles=ROLES,
        signs=_SIGNS,
        href=href,
        iterations=sorted(begun.items()),
        bars=[
            (bar, scale.x(bar.start), max(bar.seconds * scale.per_second - 1, _NARROW))
            for bar in bars
        ],
        stretches=list(zip(scale.starts, scale.places, strict=True)),
        end=max(bar.end for bar in bars),
    )


class Scale(NamedTuple):
    """Where moments lie: working time in proportion, long pauses cut short."""

    starts: tuple[datetime, ...]
    places: tuple[float, ...]
    per_second: float

    def x(self, moment: datetime) -> float:
        """Return a moment's place."""
        known = [number for number, start in enumerate(self.starts) if start <= moment]
        at = known[-1] if known else 0
        seconds = max((moment - self.starts[at]).total_seconds(), 0.0)
        return self.places[at] + seconds * self.per_second


def step_bar(step: dict[str, object]) -> Bar:
    """Return the bar of a step as its document tells it."""
    start = moment(step["started_at"]) or datetime.fromtimestamp(0, UTC)
    return Bar(
        number=int(str(step["step_index"])),
        role=str(step["role"]),
        iteration=int(str(step["iteration"])),
        status=str(step["status"]),
        start=start,
        end=moment(step["ended_at"]) or start,
        summary=str(step["summary"] or ""),
    )


def _scale(bars: Sequence[Bar]) -> Scale:
    working = sum(bar.seconds for bar in bars)
    limit = max(working * _PAUSE, 1.0)
    starts, lengths, ended = [bars[0].start], [0.0], bars[0].start
    for bar in bars:
        if (bar.start - ended).total_seconds() > limit:
            lengths[-1] = (ended - starts[-1]).total_seconds()
            starts.append(bar.start)
            lengths.append(0.0)
        ended = max(ended, bar.end)
    lengths[-1] = (ended - starts[-1]).total_seconds()
    room = _WIDTH - _LEFT - 8 - _GAP * (len(starts) - 1)
    per_second = max(room, 100.0) / max(sum(lengths), 0.001)
    places, at = [], float(_LEFT)
    for length in lengths:
        places.append(at)
        at += length * per_second + _GAP
    return Scale(tuple(starts), tuple(places), per_second)


_PICTURES = environment()
