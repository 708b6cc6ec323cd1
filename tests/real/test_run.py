"""Whole runs by servers of real tools, against a scripted model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builder import PATH, make_home, make_repository
from tests.real.cases import SERVERS
from tests.real.conftest import good, require
from tests.real.model import Model, Shell
from tests.real.tools import PATIENCE, environment
from tests.test_docs import ROOT, blocks, sections

pytestmark = [pytest.mark.real, pytest.mark.timeout(PATIENCE)]


@pytest.mark.parametrize("tool", SERVERS)
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
    used = shown["usage"]
    assert (used["input_tokens"], used["output_tokens"]) == found.model.counted


def test_a_tool_takes_one_role_of_a_recording(bench, tmp_path):
    found = bench("claude")
    judge, folder = found.project.config["check"], tmp_path / "run.tar.gz"
    found.project.config.clear()
    found.project.good_agents()
    found.project.config["judge"] = judge
    found.project.save()
    run = found.project.run_json()
    assert found.project.treadle("replay", "export", run["run_id"], str(folder)).code == 0
    words = ("replay", str(folder), "--swap", "check=judge", "--json")
    again = found.project.treadle(*words, env=found.env, timeout=PATIENCE).json
    agents = {step["role"]: step["agent"] for step in found.project.show(again["run_id"])["steps"]}
    assert (again["verdict"], agents) == (
        *("PASS", dict.fromkeys(("plan", "do", "act"), "replay") | {"check": "judge"}),
    )


def test_the_five_lines_of_the_readme_with_a_tool_that_init_finds(tmp_path):
    (block,) = blocks(sections(ROOT / "README.md")["With your own coding agent"])
    home, tools = make_home(tmp_path / "home"), tmp_path / "bin"
    repo = make_repository(tmp_path / "repo", env={**os.environ, **home})
    tools.mkdir()
    for program in (require("claude")[0] / "claude", Path(sys.executable).with_name("treadle")):
        (tools / program.name).symlink_to(program)

    def script(turn):
        write = f"cd {turn.workspace} && echo 'sh test.sh' > CONTRIBUTING.md"
        return Shell(write) if turn.role == "do" and not turn.results else good(turn)

    with Model(script) as model:
        env = {**os.environ, **home, **environment("claude", model.url), "PATH": f"{tools}:{PATH}"}
        done = subprocess.run(
            ["sh", "-eux", "-c", block.text],
            cwd=repo,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "do is done by claude" in done.stdout
    assert "LANDED" in done.stdout, done.stdout + done.stderr
    assert (repo / "CONTRIBUTING.md").read_text() == "sh test.sh\n"
