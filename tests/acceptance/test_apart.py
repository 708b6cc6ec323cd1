"""Without a sandbox: no tool stands in the user's checkout, and no change there goes unseen."""

import json

import pytest

from tests.acceptance.test_agent import GOOD
from tests.agents import fake
from tests.builder import git, wait_for

SAID = {"type": "message", "role": "assistant", "content": GOOD}
LINES = [{"type": "init", "session_id": "s-1"}, SAID, {"type": "result", "status": "success"}]
GEMINI = "cat > /dev/null; pwd >&2; git reset -q --hard\n" + "".join(
    f"echo '{json.dumps(line)}'\n" for line in LINES
)


@pytest.fixture
def loose(project):
    """Return a project without a sandbox whose user has not committed a line."""
    project.config |= dict.fromkeys(("plan", "check"), 'type = "builtin"')
    project.settings('sandbox = "off"\n')
    (project.root / "README.md").write_text("# Project\nmy own line\n")
    return project


def test_a_tools_mistake_meets_nothing_of_the_users(loose):
    path = fake.program(loose.folder, "gemini", GEMINI)
    loose.config["do"] = 'type = "gemini"'
    loose.save()
    run = loose.run_json("--verify", "AC1=true", "--anyway", env={"PATH": path})
    logs = loose.step_dir(run["run_id"], "002-do") / "logs"
    stood, complaint = (logs / "stderr.txt").read_text().splitlines()
    assert not stood.startswith(str(loose.root))
    assert "not a git repository" in complaint
    assert "my own line" in (loose.root / "README.md").read_text()
    assert run["status"] == "passed"


def test_what_treadle_lands_meanwhile_is_not_the_agents_doing(loose):
    loose.settings('sandbox = "off"\nland.run = "auto"\n')
    root = str(loose.root)
    loose.agent(
        "do",
        f"""
name = request["goal"].split()[-1]
while name == "two/b" and not os.path.exists({root!r} + "/one/a"):
    time.sleep(0.05)
(repo / name).parent.mkdir(); (repo / name).write_text(name)
ok()
""",
        edits=True,
    )
    for name in ("one/a", "two/b"):
        loose.treadle("task", "add", f"Make {name}", "--verify", f"AC1=test -f {name}")
    done = loose.treadle("run", "--parallel", "2", "--json")
    assert (done.code, [it["status"] for it in done.json["runs"]]) == (0, ["passed"] * 2), done.err
    assert all((loose.root / name).exists() for name in ("one/a", "two/b"))


@pytest.mark.real
def test_commands_that_you_give_meanwhile_are_not_the_agents_doing(loose):
    flag, picture = loose.folder / "go", loose.folder / "x.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    wait = f"while not os.path.exists({str(flag)!r}): time.sleep(0.05)\n"
    loose.agent("do", f'write("begun", "x")\n{wait}ok()', edits=True)
    words = ("--goal", "g", "--verify", "AC1=true", "--anyway", "--json")
    running = loose.start("run", *words)
    wait_for(lambda: list((loose.root / ".treadle/runs").glob("*/steps/*/begun")))
    assert loose.treadle("task", "add", "Look", "--image", str(picture)).code == 0
    assert loose.treadle("agent", "try", "plan").code == 0
    flag.touch()
    out, _ = running.communicate(timeout=120)
    assert json.loads(out)["status"] == "passed", out


def test_a_change_in_the_project_fails_the_step(loose):
    loose.agent("do", f"os.system('git -C {loose.root} reset -q --hard'); ok()")
    loose.config["do"] += "\nedits = true"
    loose.save()
    run = loose.run_json("--verify", "AC1=true", "--anyway")
    step = loose.show(run["run_id"])["steps"][-1]
    assert (run["status"], step["error_code"]) == ("failed", "boundary_violation")
    assert "README.md" in step["summary"]
    assert f"if you did, go on with treadle run --resume {run['run_id']}" in step["summary"]
    assert git(loose.root, "rev-parse", run["branch"]) == git(loose.root, "rev-parse", "main")
