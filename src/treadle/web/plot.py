"""Draw numbers by day as SVG bars."""

from collections.abc import Sequence
from datetime import date, timedelta

from markupsafe import Markup

WIDTH, HEIGHT = 1000, 180
_LEFT, _TOP, _BOTTOM = 64, 10, 22
_LABELS = 8


def draw(days: Sequence[tuple[date, float]], first: date, last: date, unit: str) -> Markup:
    """Return a bar for each day from the first to the last."""
    known = dict(days)
    every = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    top = max(known.values(), default=0.0) or 1.0
    width = (WIDTH - _LEFT) / len(every)
    parts = [*_grid(top), *_labels(every, width)]
    for number, day in enumerate(every):
        if value := known.get(day):
            parts.append(
                _bar(_LEFT + number * width, width, value / top, f"{day}: {value:g} {unit}")
            )
    label = f"{unit} by day, from {first} to {last}, at most {top:g}"
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, label, Markup("").join(parts))


def _bar(x: float, width: float, share: float, title: str) -> Markup:
    height = max(share * (HEIGHT - _TOP - _BOTTOM), 1.0)
    gap = min(width * 0.15, 4.0)
    return Markup(
        '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
        "<title>{}</title></rect>"
    ).format(x + gap / 2, HEIGHT - _BOTTOM - height, min(width - gap, 48.0), height, title)


def _grid(top: float) -> list[Markup]:
    found = []
    for share in (0.0, 0.5, 1.0):
        y = HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)
        found.append(
            Markup('<line x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>').format(_LEFT, WIDTH, y)
            + Markup('<text class="scale" x="{}" y="{:.1f}">{}</text>').format(
                _LEFT - 8, y + 4, _short(top * share)
            )
        )
    return found


def _labels(every: Sequence[date], width: float) -> list[Markup]:
    step = -(-len(every) // _LABELS)
    return [
        Markup('<text x="{:.1f}" y="{}">{}</text>').format(
            _LEFT + number * width + 2, HEIGHT - 6, f"{every[number]:%d %b}"
        )
        for number in range(0, len(every), step)
    ]


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
