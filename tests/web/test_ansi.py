"""Logs look as in a terminal, and act as text."""

import re

import pytest

from treadle.web import foreign

CASES = {
    "plain": ("a < b", "a &lt; b"),
    "colour": ("\x1b[31mred\x1b[0m x", '<span class="f1">red</span> x'),
    "bold colour": ("\x1b[1;32mok\x1b[m", '<span class="b f2">ok</span>'),
    "bright": ("\x1b[93my\x1b[39m.", '<span class="f3">y</span>.'),
    "ground": ("\x1b[41mx", '<span class="g1">x</span>'),
    "of 256": ("\x1b[38;5;196mx", '<span class="f1">x</span>'),
    "of all": ("\x1b[38;2;0;255;0mx", '<span class="f2">x</span>'),
    "bold ends": ("\x1b[1;31ma\x1b[22mb", '<span class="b f1">a</span><span class="f1">b</span>'),
    "cursor": ("a\x1b[2Kb\x1b[1;1Hc", "abc"),
    "title": ("\x1b]0;evil\x07x", "\\x1b]0;evil\\x07x"),
    "clipboard": ("\x1b]52;c;ZXZpbA==\x07x", "\\x1b]52;c;ZXZpbA==\\x07x"),
    "device": ("\x1bPq#evil\x1b\\x", "\\x1bPq#evil\\x1b\\x"),
    "swallowed": ("\x1b]8;;all of the rest", "\\x1b]8;;all of the rest"),
    "link": ("\x1b]8;;http://e\x1b\\word\x1b]8;;\x1b\\", "word"),
    "progress": ("10%\r50%\r100%\ndone", "100%\ndone"),
    "windows": ("a\r\nb", "a\nb"),
    "bell": ("a\x07b", "a\\x07b"),
    "right to left": ("a\u202eb", "a\\u202eb"),
    "cut off": ("a\x1b[", "a\\x1b["),
    "nonsense": ("\x1b[999;;:m\x1b[38m\x1b[38;5mx", "x"),
    "endless number": (
        f"\x1b[{'3' * 5000}mx\x1b[38;5;{'9' * 5000}my",
        'x<span class="f7">y</span>',
    ),
}


@pytest.mark.parametrize(("text", "shown"), CASES.values(), ids=CASES)
def test_text_becomes_markup(text, shown):
    assert foreign.log_markup(text) == shown


def test_markup_in_colours_stays_text():
    found = foreign.log_markup('\x1b[31m<img src=x onerror=alert(1)>\x1b[0m"><script>')
    assert re.findall("<[a-z]+", found) == ["<span"]
