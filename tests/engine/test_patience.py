"""When a turn that failed is taken again."""

from datetime import UTC, datetime, timedelta

import pytest

from treadle.agents.backend import AgentResult
from treadle.config.schema import AgentConfig
from treadle.contract.events import StepError
from treadle.engine.run.patience import NextTry, next_try

NOW = datetime(2026, 11, 17, 2, tzinfo=UTC)
TOOL = AgentConfig(type="codex", retry_wait=5, patience=600)


def failed(error, **more):
    return AgentResult(message="it failed", error=StepError(error), **more)


def after(seconds, waited=True):
    return NextTry(NOW + timedelta(seconds=seconds), waited)


@pytest.mark.parametrize(
    "error",
    [
        *("rate_limit", "server_error", "network", "idle_timeout", "auth_failed", "usage_limit"),
        "timeout",  # of a tool whose model has not said a word
    ],
)
def test_pauses_before_a_broken_service_is_asked_again_grow_until_patience_ends(error):
    times = [(1, 0), (2, 5), (3, 25), (4, 105), (5, 425), (6, 600)]
    result = failed(error, may_retry=error == "timeout")
    found = [next_try(TOOL, result, count, since, NOW) for count, since in times]
    assert found == [after(5), after(20), after(80), after(320), after(175), after(900, False)]


@pytest.mark.parametrize(
    ("config", "error", "failures", "expected"),
    [
        (AgentConfig(type="exec", cmd=("x",)), failed("idle_timeout"), 1, None),
        (TOOL, failed("model_unknown"), 1, None),
        (TOOL, failed("agent_missing"), 1, None),
        (TOOL, failed("agent_exit"), 1, None),
        (TOOL, failed("agent_exit", may_retry=True), 2, after(20)),
        (TOOL, failed("agent_exit", may_retry=True), 3, None),
        (TOOL, failed("timeout"), 1, after(5)),
        (TOOL, failed("timeout"), 2, None),
        (AgentConfig(type="codex", patience=0), failed("network"), 1, after(5, False)),
    ],
    ids=["exec", "model", "missing", "exit", "crash", "crashes", "timeout", "timeouts", "hasty"],
)
def test_what_lies_in_the_turn_is_not_waited_for(config, error, failures, expected):
    assert next_try(config, error, failures, 0, NOW) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(600, True), (601, False)])
def test_the_time_that_a_tool_states_counts(seconds, expected):
    then = NOW + timedelta(seconds=seconds)
    found = next_try(TOOL, failed("usage_limit", resume_at=then), 4, 0, NOW)
    assert found == NextTry(then, expected)
