"""Real tools from the package index, a scripted model, and a project they work on."""

import json
import shlex
from pathlib import Path

import pytest

from tests.builder import Project
from tests.real.model import Model, Say, Shell, answer
from tests.real.tools import BINARIES, CACHE, NEWEST, PATIENCE, environment, settings


def require(tool: str) -> list[Path]:
    """Return where a tool is; skip, loudly, where it is not: the summary names and counts it."""
    program = tool.removeprefix(NEWEST).split()[0]
    places = [CACHE / "newest" / "node_modules/.bin"] if tool.startswith(NEWEST) else BINARIES
    if not any((folder / program).exists() for folder in places):
        pytest.skip(f"{tool} is NOT INSTALLED: it needs npm; run scripts/test --real or --all")
    return places


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
        places = require(tool)
        self.project, self.tool, self.model = project, tool.removeprefix(NEWEST), model
        self.env = environment(self.tool, model.url)
        self.env["PATH"] = ":".join([*map(str, places), self.env["PATH"]])

    def configure(self, **changes) -> None:
        self.cast(dict.fromkeys(("plan", "do", "check", "act"), self.tool), **changes)

    def cast(self, roles: dict[str, str], **changes) -> None:
        """Give each role a tool."""
        for role, tool in roles.items():
            found = settings(tool, self.model.url) | changes
            given = [(key, value) for key, value in found.items() if value is not None]
            lines = [f"{key} = {json.dumps(value)}" for key, value in given]
            self.project.config[role] = "\n".join(lines)
            if tool != self.tool:
                require(tool)
                self.env = {**environment(tool, self.model.url), **self.env}
        self.project.save()

    def run(self, *extra: str):
        result = self.project.run("--json", *extra, env=self.env, timeout=PATIENCE)
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
        models.append(model := Model(script).__enter__())
        found = Bench(project, tool, model)
        found.configure(**changes)
        return found

    yield make
    for model in models:
        model.__exit__()
