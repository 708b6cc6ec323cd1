"""Numbers and times as people say them."""

import pytest

from treadle.web import render


@pytest.mark.parametrize(
    ("text", "said"),
    [("short", "short"), ("two words, cut", "two words,…"), ("a " + "é" * 20, "a éééééééé…")],
)
def test_what_is_too_long_is_cut_where_no_blank_is(text, said):
    found = render.environment().from_string("{{ text | truncate(11) }}")
    assert found.render(text=text) == said


@pytest.mark.parametrize(
    ("used", "said"),
    [(0, "0"), (2, "2"), (0.0988, "0.10"), (3.07, "3.07"), (12.4, "12"), (123456, "123,456")],
)
def test_what_a_budget_has_used_is_said_in_few_digits(used, said):
    assert render.amount(used) == said
