"""What a step means for its run: verdict, budget, progress and stop decide, and nothing else."""

import pytest

from treadle.config.schema import BudgetsConfig, ChecksConfig, WorkspaceConfig
from treadle.contract.events import EventType, StepError
from treadle.contract.messages import AskedCriterion
from treadle.engine.run.memory import CheckSeen, SecondLook, Spent
from treadle.engine.run.order import Order, Script
from treadle.engine.run.run_files import Snapshot
from treadle.engine.wheel.decide import Standing, decide, decide_between
from treadle.engine.wheel.judge import Finding

LITTLE, MUCH = Spent(), Spent(minutes=99.0)
SAME, OTHER = CheckSeen("tree", ("AC1",)), CheckSeen("before", ("AC1",))
CHEAT = SecondLook(("test.py",), ("AC1",), True)
HONEST = SecondLook(("test.py",), (), True)


def order(**changes):
    known = {
        "goal": "g",
        "text": "g",
        "criteria": (),
        "budgets": BudgetsConfig(max_iterations=3, max_minutes=60),
        "agents": {},
        "checks": ChecksConfig(protect_mode="ask"),
        "workspace": WorkspaceConfig(),
    }
    return Order(**known | changes)


def found(error=None, verdict=None, look=None, **more):
    failing = ("AC1",) if verdict == "FAIL" else ()
    return Finding(
        message="words", error=error, verdict=verdict, failing=failing, look=look, **more
    )


ORDER, LENIENT = order(), order(checks=ChecksConfig(protect_mode="warn"))
SCRIPT = order(script=Script(argv=("a",)))
BARE = order(criteria=(AskedCriterion(id="AC1", text="x"),))
TAKEN = {"unread": True, "after": Snapshot("commit", "tree")}
E = StepError
# what was asked, what the step came to, iteration, spent, last check: status and reason
TABLE = [
    (ORDER, found(), 1, LITTLE, None, "running", ""),
    (ORDER, found(), 1, MUCH, None, "running", ""),
    (ORDER, found(verdict="PASS"), 3, MUCH, SAME, "passed", "passed"),
    (ORDER, found(verdict="PASS", look=CHEAT), 1, LITTLE, None, "stopped", "protected_changed"),
    (ORDER, found(verdict="PASS", look=HONEST), 1, LITTLE, None, "passed", "passed"),
    (LENIENT, found(verdict="PASS", look=CHEAT), 1, LITTLE, None, "passed", "passed"),
    (ORDER, found(verdict="FAIL"), 1, LITTLE, None, "running", ""),
    (ORDER, found(verdict="FAIL"), 1, MUCH, OTHER, "running", ""),
    (ORDER, found(verdict="FAIL"), 2, LITTLE, SAME, "stopped", "no_progress"),
    (ORDER, found(verdict="FAIL"), 3, LITTLE, None, "stopped", "budget_exceeded"),
    (ORDER, found(verdict="FAIL"), 3, LITTLE, SAME, "stopped", "budget_exceeded"),
    (ORDER, found(E.INTERRUPTED), 1, MUCH, None, "stopped", "interrupted"),
    (ORDER, found(E.USAGE_LIMIT), 1, LITTLE, None, "stopped", "usage_limit"),
    (ORDER, found(E.BUDGET_EXCEEDED), 1, LITTLE, None, "stopped", "budget_exceeded"),
    (ORDER, found(E.TIMEOUT), 1, LITTLE, None, "failed", "timeout"),
    (ORDER, found(E.TIMEOUT), 1, MUCH, None, "stopped", "budget_exceeded"),
    (ORDER, found(E.OUTPUT_LIMIT), 1, MUCH, None, "stopped", "budget_exceeded"),
    (ORDER, found(E.AGENT_EXIT), 1, MUCH, None, "failed", "agent_exit"),
    (ORDER, found(E.PROTOCOL_ERROR, verdict="PASS"), 1, LITTLE, None, "failed", "protocol_error"),
    (ORDER, found(E.PROTOCOL_ERROR, **TAKEN), 1, LITTLE, None, "running", ""),
    (BARE, found(E.PROTOCOL_ERROR, **TAKEN), 1, LITTLE, None, "failed", "protocol_error"),
    (ORDER, found(E.PROTOCOL_ERROR, unread=True), 1, LITTLE, None, "failed", "protocol_error"),
    (SCRIPT, found(), 1, MUCH, None, "passed", "passed"),
    (SCRIPT, found(E.AGENT_EXIT), 1, LITTLE, None, "failed", "agent_exit"),
    (SCRIPT, found(E.INTERRUPTED), 1, LITTLE, None, "stopped", "interrupted"),
]


@pytest.mark.parametrize(("asked", "finding", "turn", "spent", "last", "status", "reason"), TABLE)
def test_what_a_step_means(asked, finding, turn, spent, last, status, reason):
    decision = decide(asked, finding, Standing(turn, "tree", spent, last))
    assert (decision.status, decision.reason) == (status, reason)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        *((error, "stopped") for error in (E.NETWORK, E.RATE_LIMIT, E.AUTH_FAILED, E.TIMEOUT)),
        *((error, "stopped") for error in (E.IDLE_TIMEOUT, E.AGENT_EXIT, E.AGENT_MISSING)),
        *((error, "failed") for error in (E.PROTOCOL_ERROR, E.AGENT_FAILED, E.PATCH_REFUSED)),
    ],
)
def test_what_befalls_a_tool_stops_the_run(error, status):
    by_tool = Standing(1, "tree", LITTLE, None, by_tool=True)
    assert decide(ORDER, found(error), by_tool).status == status
    assert decide(ORDER, found(error), by_tool._replace(by_tool=False)).status == "failed"


BETWEEN = [
    (LITTLE, None, "running", "", ()),
    (LITTLE, "stopped by SIGINT", "stopped", "interrupted", (EventType.STOP_REQUESTED,)),
    (MUCH, None, "stopped", "budget_exceeded", (EventType.BUDGET_EXCEEDED,)),
    (MUCH, "stopped by SIGINT", "stopped", "interrupted", (EventType.STOP_REQUESTED,)),
]


@pytest.mark.parametrize(("spent", "stop", "status", "reason", "events"), BETWEEN)
def test_whether_another_step_begins(spent, stop, status, reason, events):
    decision = decide_between(ORDER, spent, stop)
    happened = tuple(event.type for event in decision.happened)
    assert (decision.status, decision.reason, happened) == (status, reason, events)


def test_a_spent_budget_says_what_is_needed():
    decision = decide_between(ORDER, MUCH, None)
    assert decision.over is not None
    assert decision.over.needed == "max_minutes=120"
