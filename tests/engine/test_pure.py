"""The decisions of the engine that need neither files nor processes."""

from datetime import UTC, datetime

import pytest

from treadle import ids
from treadle.config.schema import BudgetsConfig
from treadle.engine.run import order
from treadle.engine.run.order import Spent
from treadle.engine.wheel import loop
from treadle.store.runs import StepRow

NOW = datetime(2026, 1, 23, 14, 55, 1, tzinfo=UTC)


def step(role, status="ok"):
    return StepRow("r", 1, role, 1, status, "d", "t")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], "plan"),
        ([step("plan")], "do"),
        ([step("do", "skipped")], "check"),
        ([step("check")], "act"),
        ([step("act")], "plan"),
        ([step("plan"), step("do", "fail")], "do"),
    ],
)
def test_next_role_follows_the_wheel_and_repeats_what_failed(steps, expected):
    assert loop.next_role(steps) == expected


@pytest.mark.parametrize(
    ("limit", "spent", "key"),
    [
        ({"max_minutes": 10}, {"minutes": 10.0}, "max_minutes"),
        ({"max_tokens": 5}, {"tokens": 6}, "max_tokens"),
        ({"max_cost_usd": 1.5}, {"cost_usd": 2.0}, "max_cost_usd"),
        ({"max_output_mb": 1}, {"output_mb": 1.0}, "max_output_mb"),
        ({"max_minutes": 10}, {"minutes": 9.9}, None),
        ({}, {"minutes": 1e9}, None),
    ],
)
def test_budget_exceeded(limit, spent, key):
    found = order.exceeded_budget(BudgetsConfig(**limit), Spent(**spent))
    assert (found.key if found else None) == key


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("# Add login\n\nLong story", "Add login"),
        ("\n\nPlain line\nmore", "Plain line"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_goal_is_the_first_heading_or_line(text, goal):
    assert order.short_goal(text) == goal


def test_run_ids_sort_by_time_whatever_the_clock_does():
    last = None
    made = []
    for second in [1, 1, 1, 0, 2, 1, 30, 29]:
        last = ids.new_run_id(NOW.replace(second=second), last, 12345)
        made.append(last)
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(ids.is_run_id(run_id) for run_id in made)


def test_a_hundred_thousand_run_ids_stay_in_order():
    last, previous = None, ""
    for number in range(100_000):
        moment = NOW.replace(second=(number * 7919) % 60)
        last = ids.new_run_id(moment, last, number * 2654435761)
        assert last > previous
        previous = last
