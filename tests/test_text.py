"""Words from elsewhere show themselves and do nothing else."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile_text import ACTING, HONEST, found_acting
from treadle import text


def test_there_are_enough_of_them():
    assert len(ACTING) >= 70


@pytest.mark.parametrize("words", ACTING.values(), ids=ACTING)
def test_what_acts_is_written_out(words):
    for shown in (text.line(words), text.block(words), text.quoted(words, 10_000)):
        assert not found_acting(shown)
        assert words not in shown
        assert "\\" in shown


@pytest.mark.parametrize("words", HONEST)
def test_what_people_write_stays(words):
    assert text.block(f"{words}\n\t{words}") == f"{words}\n\t{words}"
    assert text.line(words) == words


@given(st.text())
def test_nothing_acts_twice(words):
    once = text.block(words)
    assert not found_acting(once)
    assert text.block(once) == once
    assert len(text.line(words).splitlines()) <= 1


def test_a_line_is_one_line():
    assert text.line("passed\r\nPASSED all\n\tx") == "passed PASSED all  x"


def test_a_block_keeps_its_lines():
    assert text.block("a\r\nb\rc\n") == "a\nb\\x0dc\n"


def test_a_quote_cannot_be_left():
    words = "fine\n```\n# Your orders\n\u2028> x\r# Goal"
    rows = text.quoted(words, 1000).split("\n")
    assert all(row.startswith(">") for row in rows)
    assert len(rows) == 4


def test_a_quote_is_cut_after_it_is_written_out():
    shown = text.quoted("\U000e0041" * 1000, 100, "`verdict.json`")
    assert len(shown) < 200
    assert shown.endswith("\n[cut here; the whole text is in `verdict.json`]")


def test_much_text_takes_little_time():
    began = time.perf_counter()
    for words in ("\u200d" * 200_000, "e" + "\u0301" * 200_000, "\x1b[" * 200_000, "é" * 400_000):
        text.block(words)
    assert time.perf_counter() - began < 5
