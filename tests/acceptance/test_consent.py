"""What others commit is asked once, with the diff: on a terminal, by `trust`, or by exit code 3."""

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.builder import Project, git

THEIRS = '[agents.do]\ntype = "builtin"\nrun = ["touch", "done.txt"]\n'
GOAL = ("run", "--goal", "x", "--ac", "works", "--verify", "AC1=test -f done.txt")


@pytest.fixture
def pulled(project, tmp_path):
    """Return a trusted clone into which a pull has just brought another configuration."""
    git(tmp_path, "clone", "-q", str(project.root), "mine")
    mine = Project(tmp_path / "mine", project.folder)
    assert mine.treadle("trust").code == 0
    project.settings(THEIRS)
    project.git("commit", "-qam", "Do it")
    mine.git("pull", "-q")
    return mine


def test_it_stops_with_the_diff_and_is_asked_once(pulled):
    stopped = pulled.treadle(*GOAL)
    assert stopped.code == 3
    assert '+run = ["touch", "done.txt"]' in stopped.err
    assert "somebody else's commit brought .treadle/config.toml" in stopped.err
    told = pulled.treadle(*GOAL, "--json").json["error"]
    assert [change["file"] for change in told["changes"]] == [".treadle/config.toml"]
    shown = pulled.treadle("trust", "--show")
    assert '+run = ["touch", "done.txt"]' in shown.out
    assert pulled.treadle("runs", "list").code == 0
    assert pulled.treadle(*GOAL).code == 3
    accepted = pulled.treadle("trust", "--json").json
    assert accepted["trusted"] is True
    assert [change["file"] for change in accepted["changes"]] == [".treadle/config.toml"]
    assert pulled.treadle(*GOAL).code == 0


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 3), (b"n\n", 3)])
def test_a_terminal_is_asked(pulled, answer, code):
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    done = subprocess.Popen(
        [sys.executable, "-P", "-m", "treadle", *GOAL],
        cwd=pulled.root,
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 4096)
    assert b'+run = ["touch", "done.txt"]' in shown
    while _read(ours):
        pass
    os.close(ours)
    assert done.wait(120) == code


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""  # nobody holds the other end any more


ROLE = "diff --git a/.treadle/roles/do.md b/.treadle/roles/do.md\nnew file mode 100644\n"
ROLE += "--- /dev/null\n+++ b/.treadle/roles/do.md\n@@ -0,0 +1 @@\n+Do it well.\n"


@pytest.mark.real
@pytest.mark.parametrize(("allowed", "code"), [("", 0), ("[budgets]\nmax_risky_files = 9\n", 3)])
def test_a_landing_you_approved_is_not_asked_again(project, allowed, code):
    """Raised for good, the budget has let the change pass without a question."""
    project.settings(allowed)
    project.good_agents()
    project.agent("act", f'write("patch.diff", {ROLE!r}); ok(files=["patch.diff"])')
    project.agent("check", 'd = (repo / ".treadle/roles/do.md").exists()\n'
                  'verdict("PASS" if d else "FAIL", AC1=d); ok()')  # fmt: skip
    project.git("commit", "-qam", "Settings")
    run = project.run_json("--budget", "max_risky_files=1")
    assert run["status"] == "passed", run
    assert project.treadle("land", run["run_id"]).code == 0
    again = project.run("--json")
    assert (again.code == 3) == (code == 3), again
    if code:
        assert json.loads(again.out)["error"]["code"] == "trust_changed"
