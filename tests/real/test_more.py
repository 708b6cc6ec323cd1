"""The tools that take long to install, and the presets of the Agent Client Protocol."""

import json

import pytest

from tests.real.conftest import good, require
from tests.real.model import Fail, Say, answer

pytestmark = [pytest.mark.real, pytest.mark.all]

MORE = ("opencode", "copilot")
PRESETS = {"gemini": "gemini", "opencode": "opencode", "copilot": "copilot"}


@pytest.mark.parametrize("tool", MORE)
def test_a_whole_run_from_plan_to_pass(bench, tool):
    found = bench(tool, timeout=110)
    run = found.run("--budget", "max_iterations=2", timeout=600)
    shown = found.project.show(run["run_id"])
    assert (run["status"], run["verdict"]) == ("passed", "PASS"), (shown, found.model.requests)
    assert found.project.git("show", f"{run['branch']}:done.txt") == "done\n"
    assert shown["usage"]["output_tokens"] > 0


@pytest.mark.parametrize("tool", MORE)
def test_prose_is_repaired(bench, tool):
    def script(turn):
        if turn.role != "plan":
            return Fail(401)
        return Say(answer("repaired") if turn.is_repair else "I have a plan.")

    found = bench(tool, script)
    run = found.run(timeout=300)
    plan = found.step(run["run_id"], "001-plan")
    assert json.loads((plan / "output.json").read_text())["summary"] == "repaired"
    assert found.error(run["run_id"]) == "auth_failed"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_plans_and_works(bench, preset):
    require(PRESETS[preset])
    found = bench(preset, good)
    lines = {"type": "acp", "preset": preset, "timeout": 110, "retry_wait": 0.1}
    if preset == "gemini":
        lines["extra_args"] = ["-m", "scripted"]
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items())
    found.project.config |= dict.fromkeys(("plan", "do", "check", "act"), text)
    found.project.save()
    run = found.run("--budget", "max_iterations=2", timeout=600)
    assert run["status"] == "passed", found.project.show(run["run_id"])
