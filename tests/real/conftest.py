"""Real tools from the package index, a scripted model, and a project they work on."""

import json
import shlex
from pathlib import Path

import pytest

from tests.builder import Project
from tests.real.model import Model, Say, Shell, Turn, answer
from tests.real.tools import BINARIES, PATIENCE, environment, settings


def require(tool: str) -> None:
    """Skip, loudly, where a tool is not installed; the summary of pytest names and counts it."""
    program = tool.split()[0]
    if not any((folder / program).exists() for folder in BINARIES):
        pytest.skip(f"{program} is NOT INSTALLED: it needs npm; run scripts/test --real or --all")


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

    def run(self, *extra: str):
        result = self.project.run("--json", *extra, env=self.env, timeout=PATIENCE)
        assert "error" not in result.json, result.json
        return result.json | {"code": result.code}

    @property
    def told(self) -> list[Turn]:
        """Return the calls whose tokens the tool tells: one server only each prompt's last."""
        turns, script = self.model.turns, self.model.script
        return [t for t in turns if self.tool != "opencode acp" or isinstance(script(t), Say)]

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
