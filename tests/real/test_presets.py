"""The presets of the Agent Client Protocol, each with its real server."""

import json

import pytest

from tests.real.conftest import good, require
from tests.real.tools import codex

pytestmark = [pytest.mark.real, pytest.mark.all, pytest.mark.timeout(600)]

# The program of each preset; two of them are adapters around a tool.
PRESETS = {
    **{name: name for name in ("gemini", "opencode", "copilot")},
    "codex": "codex-acp",
    "claude": "claude-agent-acp",
}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_plans_and_works(bench, preset):
    require(PRESETS[preset])
    found = bench(preset, good)
    lines = {"type": "acp", "preset": preset, "timeout": 400, "retry_wait": 0.1}
    if preset == "gemini":
        lines["extra_args"] = ["-m", "scripted"]
    if preset == "codex":
        own = codex(found.model.url) | {"model": "gpt-5.5"}
        found.env |= {"CODEX_CONFIG": json.dumps(own), "MODEL_PROVIDER": "t"}
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items())
    found.project.config |= dict.fromkeys(("plan", "do", "check", "act"), text)
    found.project.save()
    run = found.run("--budget", "max_iterations=2", limit=550)
    assert run["status"] == "passed", found.project.show(run["run_id"])["steps"]
