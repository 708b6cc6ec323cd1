"""Whole runs by real tools on a real repository, against a scripted model."""

import json

import pytest

from tests.real.tools import TOOLS

pytestmark = pytest.mark.real


@pytest.mark.parametrize("tool", TOOLS)
def test_a_whole_run_from_plan_to_pass(bench, tool):
    found = bench(tool)
    run = found.run()
    shown = found.project.show(run["run_id"])
    roles = [step["role"] for step in shown["steps"]]
    assert (run["status"], run["verdict"]) == ("passed", "PASS"), (shown, found.model.requests)
    assert roles == ["plan", "do", "check", "act", "plan", "do", "check"]
    assert found.project.git("show", f"{run['branch']}:done.txt") == "done\n"
    assert found.step(run["run_id"], "001-plan").joinpath("plan.md").exists()
    lines = found.step(run["run_id"], "004-act").joinpath("logs/events.jsonl").read_text()
    kinds = {json.loads(line)["kind"] for line in lines.splitlines()}
    assert "done" in kinds
    assert kinds & {"tool_start", "tool_end"}
    assert shown["usage"]["output_tokens"] == 7 * 100
    assert shown["usage"]["input_tokens"] >= 7 * 2000
