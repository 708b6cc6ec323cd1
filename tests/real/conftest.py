"""Real tools from the package index, a scripted model, and a project they work on."""

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.acceptance.conftest import Project
from tests.real.model import KEY, Model, Say, Shell, answer

CLIS = Path(__file__).parent / "clis" / "node_modules"


def require(tool: str) -> None:
    """Skip, loudly, where a tool is not installed; the summary of pytest names and counts it."""
    if not (CLIS / ".bin" / tool).exists():
        pytest.skip(f"{tool} is NOT INSTALLED: it needs npm; run scripts/test --real")


def settings(tool: str, url: str) -> dict:
    """Return the agent's settings that lead `tool` to the scripted model."""
    found: dict[str, object] = {"type": tool, "retry_wait": 0.1, "timeout": 90, "model": "scripted"}
    if tool == "codex":
        table = {"name": "t", "base_url": f"{url}/v1", "env_key": "CODEX_API_KEY"}
        words = ", ".join(f"{key}={json.dumps(value)}" for key, value in table.items())
        words += ', wire_api="responses", request_max_retries=0, stream_max_retries=0'
        found["extra_args"] = ["-c", 'model_provider="t"', "-c", f"model_providers.t={{{words}}}"]
        found["model"] = "gpt-5.5"
    return found


def environment(tool: str, url: str) -> dict[str, str]:
    """Return what the user would have in the environment."""
    keys = {
        "codex": {"CODEX_API_KEY": KEY},
        "claude": {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url},
        "gemini": {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url},
    }
    return keys[tool] | {"PATH": f"{CLIS / '.bin'}:{os.environ['PATH']}"}


def good(turn):
    """Work through a whole run: the first check fails, act mends it, the second passes."""
    if turn.results:
        return Say(answer(f"{turn.role} is done"))
    step, workspace = shlex.quote(turn.step), shlex.quote(turn.workspace)
    done = f"test -f {workspace}/done.txt"
    judge = (
        f"{done} && w=PASS p=true || {{ w=FAIL; p=false; }}; cd {step}; "
        'printf \'{"version": 1, "verdict": "%s", "criteria": [{"id": "AC1", "pass": %s}]}\' '
        "$w $p > verdict.json; echo $w > scorecard.md"
    )
    commands = {
        "plan": f"echo '1. make done.txt' > {step}/plan.md",
        "do": f"mkdir -p {step}/files; ls {workspace} > {step}/files/commands.txt",
        "check": judge,
        "act": f"echo done > {workspace}/done.txt",
    }
    return Shell(commands[turn.role])


class Bench:
    """A project whose roles are all played by one real tool."""

    def __init__(self, project: Project, tool: str, model: Model):
        self.project, self.tool, self.model = project, tool, model
        self.env = environment(tool, model.url)

    def configure(self, **changes) -> None:
        found = settings(self.tool, self.model.url) | changes
        text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in found.items())
        for role in ("plan", "do", "check", "act"):
            self.project.config[role] = text
        self.project.save()

    def run(self, *extra: str, timeout=110):
        result = self.project.run("--json", *extra, env=self.env, timeout=timeout)
        assert "error" not in result.json, result.json
        return result.json | {"code": result.code}

    def step(self, run_id: str, name: str) -> Path:
        return self.project.step_dir(run_id, name)

    def error(self, run_id: str) -> str:
        return self.project.show(run_id)["steps"][-1]["error_code"]


@pytest.fixture
def bench(project):
    """Return a maker of benches; the model is closed when the test ends."""
    models = []

    def make(tool: str, script=good, **changes) -> Bench:
        require(tool)
        model = Model(script).__enter__()
        models.append(model)
        found = Bench(project, tool, model)
        found.configure(**changes)
        return found

    yield make
    for model in models:
        model.__exit__()


@pytest.fixture
def project(repo, tmp_path) -> Project:
    folder = tmp_path / "agents"
    folder.mkdir()
    found = Project(repo, folder)
    assert found.treadle("init", "--commit").code == 0
    return found
