"""Turn documents into pages: every value is text unless our own code has made it markup."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from treadle.contract import ROLES
from treadle.text import block, line, plural

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


PLOT_WIDTH, PLOT_HEIGHT = 1000, 180
_PLOT_LEFT, _PLOT_TOP, _PLOT_BOTTOM = 64, 10, 22
_LABELS = 8


def draw_days(days: Sequence[tuple[date, float]], first: date, last: date, unit: str) -> Markup:
    """Return a bar for each day from the first to the last."""
    known = dict(days)
    every = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    top = max(known.values(), default=0.0) or 1.0
    width = (PLOT_WIDTH - _PLOT_LEFT) / len(every)
    parts = [*_grid(top), *_labels(every, width)]
    for number, day in enumerate(every):
        if value := known.get(day):
            parts.append(
                _day_bar(
                    _PLOT_LEFT + number * width, width, value / top, f"{day}: {value:g} {unit}"
                )
            )
    label = f"{unit} by day, from {first} to {last}, at most {top:g}"
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(PLOT_WIDTH, PLOT_HEIGHT, label, Markup("").join(parts))


def _day_bar(x: float, width: float, share: float, title: str) -> Markup:
    height = max(share * (PLOT_HEIGHT - _PLOT_TOP - _PLOT_BOTTOM), 1.0)
    gap = min(width * 0.15, 4.0)
    return Markup(
        '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
        "<title>{}</title></rect>"
    ).format(
        x + gap / 2, PLOT_HEIGHT - _PLOT_BOTTOM - height, min(width - gap, 48.0), height, title
    )


def _grid(top: float) -> list[Markup]:
    found = []
    for share in (0.0, 0.5, 1.0):
        y = PLOT_HEIGHT - _PLOT_BOTTOM - share * (PLOT_HEIGHT - _PLOT_TOP - _PLOT_BOTTOM)
        found.append(
            Markup('<line x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>').format(
                _PLOT_LEFT, PLOT_WIDTH, y
            )
            + Markup('<text class="scale" x="{}" y="{:.1f}">{}</text>').format(
                _PLOT_LEFT - 8, y + 4, _short(top * share)
            )
        )
    return found


def _labels(every: Sequence[date], width: float) -> list[Markup]:
    step = -(-len(every) // _LABELS)
    return [
        Markup('<text x="{:.1f}" y="{}">{}</text>').format(
            _PLOT_LEFT + number * width + 2, PLOT_HEIGHT - 6, f"{every[number]:%d %b}"
        )
        for number in range(0, len(every), step)
    ]


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


TIMELINE_WIDTH = 1000
_LEFT, _TOP, _ROW, _BAR = 56, 22, 26, 16
_GAP = 18.0  # what a long pause is drawn as
_PAUSE = 0.15  # share of the working time that makes a pause long
_NARROW = 3.0
_SYMBOLS = {"fail": "✗", "stop": "■", "running": "▸", "skipped": "–"}


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


def draw_timeline(bars: Sequence[Bar], href: Callable[[int], str] | None = None) -> Markup:
    """Return the picture; `href` says where a step's bar leads."""
    if not bars:
        return Markup("")
    bars = sorted(bars, key=lambda bar: (bar.start, bar.number))
    scale = _scale(bars)
    height = _TOP + len(ROLES) * _ROW + 18
    parts = [*_rows(), *_iterations(bars, scale), *(_step_bar(bar, scale, href) for bar in bars)]
    label = f"Timeline of {plural(len(bars), 'step')}"
    return Markup(
        '<svg class="timeline" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}</svg>'
    ).format(TIMELINE_WIDTH, height, label, Markup("").join(parts), _axis(bars, scale, height))


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
    room = TIMELINE_WIDTH - _LEFT - 8 - _GAP * (len(starts) - 1)
    per_second = max(room, 100.0) / max(sum(lengths), 0.001)
    places, at = [], float(_LEFT)
    for length in lengths:
        places.append(at)
        at += length * per_second + _GAP
    return Scale(tuple(starts), tuple(places), per_second)


def _rows() -> list[Markup]:
    found = []
    for number, role in enumerate(ROLES):
        y = _TOP + number * _ROW
        found.append(
            Markup('<line class="row" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
                _LEFT, TIMELINE_WIDTH, y + _ROW / 2, y + _ROW / 2
            )
            + Markup('<text class="role" x="0" y="{}">{}</text>').format(y + _ROW / 2 + 4, role)
        )
    return found


def _iterations(bars: Sequence[Bar], scale: Scale) -> list[Markup]:
    found, last = [], -40.0
    for number in sorted({bar.iteration for bar in bars}):
        x = scale.x(min(bar.start for bar in bars if bar.iteration == number))
        bottom = _TOP + len(ROLES) * _ROW
        found.append(
            Markup('<line class="iteration" x1="{0:.1f}" x2="{0:.1f}" y1="8" y2="{1}"/>').format(
                x, bottom
            )
        )
        if x - last >= 20:
            last = x
            found.append(
                Markup('<text class="iteration" x="{:.1f}" y="14">{}</text>').format(x + 4, number)
            )
    return found


def _step_bar(bar: Bar, scale: Scale, href: Callable[[int], str] | None) -> Markup:
    x = scale.x(bar.start)
    width = max(bar.seconds * scale.per_second - 1, _NARROW)
    row = ROLES.index(bar.role) if bar.role in ROLES else 0
    y = _TOP + row * _ROW + (_ROW - _BAR) / 2
    title = f"{bar.number} {bar.role}, {bar.status}, {bar.seconds:.1f} s: {line(bar.summary)}"
    drawn = Markup(
        '<rect class="bar {}" x="{:.1f}" y="{}" width="{:.1f}" height="{}" rx="2">'
        "<title>{}</title></rect>"
    ).format(bar.status, x, y, width, _BAR, title)
    symbol = _SYMBOLS.get(bar.status)
    if symbol:
        drawn += Markup('<text class="sign {}" x="{:.1f}" y="{}">{}</text>').format(
            bar.status, x + 3, y + 12, symbol
        )
    if href is None:
        return drawn
    return Markup('<a href="{}">{}</a>').format(escape(href(bar.number)), drawn)


def _axis(bars: Sequence[Bar], scale: Scale, height: int) -> Markup:
    """Write when each stretch of work began, and how long the whole took."""
    found = [
        Markup('<text class="time" x="{:.1f}" y="{}">{}</text>').format(
            place, height - 4, f"{start:%H:%M:%S}" if number == 0 else f"⋯ {start:%d %b %H:%M}"
        )
        for number, (start, place) in enumerate(zip(scale.starts, scale.places, strict=True))
        if number == 0 or place - scale.places[number - 1] > 90
    ]
    end = max(bar.end for bar in bars)
    found.append(
        Markup('<text class="time end" x="{}" y="{}">{}</text>').format(
            TIMELINE_WIDTH - 2, height - 4, f"{end:%H:%M:%S}"
        )
    )
    return Markup("").join(found)
