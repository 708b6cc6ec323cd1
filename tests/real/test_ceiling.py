"""Real tools are ended in mid-step when they reach a limit."""

import pytest

from tests.real.model import Say, Shell, answer
from tests.real.tools import EVERY, PATIENCE, settings

pytestmark = [pytest.mark.real, pytest.mark.timeout(PATIENCE)]
NAP = "python3 -c 'import time; time.sleep(1)'"


@pytest.mark.parametrize("tool", EVERY)
def test_a_limit_of_money_is_exceeded_by_one_call_at_most(bench, tool):
    found = bench(tool, lambda turn: Shell(NAP) if turn.results < 8 else Say(answer("done")))
    if tool == "gemini":
        found.configure(prices=[5, 1, 20])
    if tool == "codex":  # its own record tells which model it chose, and that has a price
        words = settings(tool, found.model.url)["extra_args"]
        found.configure(model=None, extra_args=[*words, "-c", 'model="gpt-5.5"'])
    run = found.run("--budget", "max_cost_usd=0.01")
    assert (run["status"], run["reason_code"]) == ("stopped", "budget_exceeded")
    assert found.error(run["run_id"]) == "budget_exceeded"
    assert 2 <= len(found.model.turns) <= 4, (
        "a call has 1050 tokens and costs less than half a cent"
    )
