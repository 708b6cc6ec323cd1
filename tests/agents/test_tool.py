"""Tokens and money over the calls of one step."""

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


def test_nothing_told_is_nothing_known():
    assert backend.total_usage([None], (), (1, 1, 1)) is None
