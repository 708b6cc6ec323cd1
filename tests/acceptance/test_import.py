"""`treadle import`: issues become tasks, their commands only with the user's word."""

import os
import pty
import shlex
import subprocess
import sys

import pytest

from tests.acceptance.forges import ToyForge
from tests.acceptance.site import Site
from tests.builder import git
from treadle.layout import Layout
from treadle.store.store import Reader
from treadle.tasks import issue

BODY = """Please \x1b[2J add it.

- [ ] done.txt is there

Check:
```sh
test -f done.txt
touch pwned
```
"""
ISSUES = {
    "12": {"title": "Make done", "body": BODY, "labels": ["agent"]},
    "13": {"title": "Later", "body": "", "labels": ["agent", "late"]},
}


@pytest.fixture
def hub(project, tmp_path, monkeypatch):
    toy = ToyForge(tmp_path / "forge", "gh").connect(project.root, "https://github.com/me/toy.git")
    toy.tell(issues=ISSUES)
    monkeypatch.setenv("PATH", f"{toy.bin}:{os.environ['PATH']}")
    return toy


@pytest.mark.real
def test_an_issue_becomes_a_task_a_commit_that_closes_it_and_a_pull_request(project, hub):
    site = Site(project)
    shown = project.treadle("import", "gh#12")
    assert "ADDED GH-12 Make done (2 criteria)" in shown.out
    assert "left out: AC2=test -f done.txt && touch pwned" in shown.out
    (task,) = project.treadle("task", "list", "--json").json["tasks"]
    whole = project.treadle("task", "show", "GH-12", "--json").json
    assert [it["verify"] for it in whole["criteria"]] == [None, None], task
    # The mark is that of what was shown: an issue that was edited since is refused.
    words = shlex.split(shown.out.partition("next: treadle ")[2])
    hub.tell(issues=ISSUES | {"12": ISSUES["12"] | {"body": BODY.replace("pwned", "worse")}})
    assert project.treadle(*words, "--json").json["error"]["code"] == "commands_changed"
    hub.tell(issues=ISSUES)
    (again,) = project.treadle(*words, "--json").json["tasks"]
    assert (again["task_id"], again["is_new"], again["commands"]) == ("GH-12", False, 1)

    listed = project.treadle("import", "--label", "agent", "--json").json["tasks"]
    assert [(it["task_id"], it["is_new"]) for it in listed] == [("GH-12", False), ("GH-13", True)]
    other = project.treadle("import", "https://github.com/you/else/issues/13?x=1", "--json").json
    (elsewhere,) = other["tasks"]
    assert (elsewhere["task_id"], elsewhere["is_new"]) == ("T-1", True)
    (project.root / "note.md").write_text("# From a file\n\n- [ ] it is done\n")
    assert project.treadle("import", "note.md", "--json").json["tasks"][0]["task_id"] == "T-2"
    (project.root / "note.md").unlink()
    # The same path at another host is another repository: no commit here closes its issues.
    namesake = project.treadle("import", "https://github.example.org/me/toy/issues/13", "--json")
    assert namesake.json["tasks"][0]["task_id"] == "T-3"
    rows = Reader.open(Layout(project.root))
    assert [issue.closes(rows.task(it)) for it in ("GH-13", "T-1", "T-3")] == [
        *("#13", "you/else#13", None)
    ]
    rows.close()

    project.settings('[agents.do]\ntype = "builtin"\nrun = ["sh", "-c", "echo done > done.txt"]\n')
    git(site.root, "commit", "-qm", "Settings", "--", ".treadle/config.toml")
    project.treadle("task", "edit", "GH-12", "--verify", "AC1=test -f done.txt")
    run = project.treadle("run", "GH-12", "--json").json
    assert run["status"] == "passed", run
    assert project.treadle("pr", run["run_id"], "--json").code == 0
    message = git(site.root, "log", "-1", "--format=%(trailers)", "treadle/make-done")
    assert message.startswith(f"Closes: #12\nTreadle-Run: {run['run_id']}")
    (pull,) = hub.known["pulls"]
    assert pull["body"].endswith("\nCloses #12\n")


@pytest.mark.real
@pytest.mark.parametrize(("answer", "taken"), [("y", 1), ("", 0)])
def test_commands_come_in_for_who_says_yes_to_those_that_are_shown(project, answer, taken):
    (project.root / "note.md").write_text(f"# Make done\n\n{BODY}")
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    words = [sys.executable, "-m", "treadle", "import", "note.md"]
    env, out = project.environment(), subprocess.DEVNULL
    done = subprocess.run(
        words, cwd=project.root, env=env, stdin=theirs, stdout=out, stderr=theirs, check=True
    )
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0
    before, _, asked = said.partition("AC2=test -f done.txt && touch pwned")
    assert "brings commands" in before
    assert "[y/N]" in asked
    assert sum(bool(it["verify"]) for it in shown(project, "T-1")) == taken
    if not taken:  # the command for later gives them to this task, and makes no other
        later = shlex.split(project.treadle("import", "note.md").out.partition("next: treadle ")[2])
        assert [it["task_id"] for it in project.treadle(*later, "--json").json["tasks"]] == ["T-2"]
        assert [it["verify"] for it in shown(project, "T-1")] == [None, None]
        assert shown(project, "T-2")[1]["verify"] == "test -f done.txt && touch pwned"
        assert len(project.treadle("task", "list", "--json").json["tasks"]) == 2
    assert not (project.root / "pwned").exists()


def shown(project, task):
    return project.treadle("task", "show", task, "--json").json["criteria"]


@pytest.mark.parametrize(("tool", "host"), [("gh", "github.com"), ("glab", "gitlab.com")])
def test_more_issues_than_a_page_holds_are_all_imported(project, tmp_path, monkeypatch, tool, host):
    toy = ToyForge(tmp_path / "forge", tool).connect(project.root, f"https://{host}/me/toy.git")
    found = {str(number): {"title": "It", "body": "", "labels": ["a"]} for number in range(1, 102)}
    toy.tell(issues=found)
    monkeypatch.setenv("PATH", f"{toy.bin}:{os.environ['PATH']}")
    assert len(project.treadle("import", "--label", "a", "--json").json["tasks"]) == 101


def test_what_is_no_issue_is_said(project, hub):
    (project.root / "picture.md").write_bytes(b"\x89PNG\xff")
    for word, code in (("gh#99", "forge_failed"), ("nothing", "usage"), ("picture.md", "usage")):
        error = project.treadle("import", word, "--json").json["error"]
        assert error["code"] == code
    (hub.bin / "gh").unlink()
    missing = project.treadle("import", "gh#12", "--json")
    assert (missing.code, missing.json["error"]["code"]) == (3, "no_forge_tool")
    assert missing.json["error"]["message"].startswith("github.com: gh is not installed")
    git(project.root, "remote", "set-url", "origin", "https://code.example.org/me/toy.git")
    other = project.treadle("import", "#12", "--json").json["error"]["message"]
    assert other.startswith("code.example.org: neither GitHub nor GitLab")
