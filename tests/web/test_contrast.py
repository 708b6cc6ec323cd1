"""Colours that can be told from what is behind them, in the light and in the dark."""

import re

import pytest

from treadle.web.render import STATIC

TEXT = ("ink", "soft", "accent", "good", "bad", "warn", "info", "hk", "hs", "hc", "hn", "hf")
BEHIND = ("paper", "sheet", "hover")
# A word on its own ground, what was changed in a diff, and the colours of code on both.
PAIRS = [
    *((word, f"{word}-bg") for word in ("good", "bad", "info", "warn")),
    *((word, ground) for word in ("ink", *TEXT[7:]) for ground in ("good-bg", "bad-bg")),
]


def colours(scheme):
    """Return the colours of a scheme by their names; the dark one changes most of the light."""
    found, parts = {}, (0, 1) if scheme == "dark" else (0,)
    for name in ("treadle.css", "run.css"):
        text = (STATIC / name).read_text().split("@media (prefers-color-scheme: dark)")
        for part in parts:
            found |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", text[part]))
    return found


def contrast(one, other):
    high, low = sorted((_light(one), _light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _light(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        it / 12.92 if it <= 0.03928 else ((it + 0.055) / 1.055) ** 2.4 for it in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_borders_and_marks_stand_out(scheme):
    found = colours(scheme)
    words = [(word, ground) for word in TEXT for ground in BEHIND] + PAIRS
    faint = [(*it, 4.5) for it in words if contrast(*(found[name] for name in it)) < 4.5]
    edges = [("edge", ground) for ground in BEHIND]
    faint += [(*it, 3.0) for it in edges if contrast(*(found[name] for name in it)) < 3]
    assert faint == []
