"""Tokens and money over the calls of one step."""

import pytest

from treadle.agents import backend
from treadle.agents.backend import Usage

FIRST = Usage(model="m", input_tokens=2000, cached_tokens=800, output_tokens=100, cost_usd=0.01)
SECOND = Usage(model="m", input_tokens=4000, cached_tokens=1600, output_tokens=200, cost_usd=0.02)


def test_calls_are_added_up():
    assert backend.total_usage([FIRST, None, FIRST], (), None).input_tokens == 4000


def test_counters_that_go_on_counting_are_not_added():
    found = backend.total_usage([FIRST, SECOND], ("tokens",), None)
    assert (found.input_tokens, found.output_tokens) == (4000, 200)
    assert backend.total_usage([FIRST, SECOND], ("cost",), None).cost_usd == 0.02


def test_prices_make_costs():
    found = backend.total_usage([FIRST], (), (1.0, 0.1, 10.0))
    assert found.cost_usd == (1200 * 1.0 + 800 * 0.1 + 100 * 10.0) / 1e6


@pytest.mark.parametrize(
    ("model", "prices"),
    [
        ("claude-opus-5.5", (4, 0.2, 20)),
        ("anthropic/claude-sonnet-4-5-20250929", (3, 0.3, 15)),
        ("gpt-6-sol", (2, 0.2, 10)),
        ("gpt-daybreak-red-latest", (12.5, 1.25, 75)),
        ("gpt-99", None),
        (None, None),
    ],
)
def test_a_model_has_its_price_by_any_of_its_names_or_none(model, prices):
    assert backend.default_prices(model) == prices


def test_nothing_told_is_nothing_known():
    assert backend.total_usage([None], (), (1, 1, 1)) is None


@pytest.mark.parametrize("amount", [-5, -0.5, 10**12, 1e300, 10**40, float("nan"), True, "7", None])
def test_absurd_amounts_count_for_nothing(amount):
    assert backend.money_at({"used": amount}, "used") == 0
    assert backend.number_at({"used": amount}, "used") == 0
