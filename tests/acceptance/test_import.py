"""`treadle import`: issues become tasks, their commands only with the user's word."""

import os
import shlex

import pytest

from tests.acceptance.forges import ToyForge
from tests.acceptance.site import Site
from tests.builder import git

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


def test_what_is_no_issue_is_said(project, hub):
    for word, code in (("gh#99", "forge_failed"), ("nothing", "usage")):
        error = project.treadle("import", word, "--json").json["error"]
        assert error["code"] == code
    (hub.bin / "gh").unlink()
    missing = project.treadle("import", "gh#12", "--json")
    assert (missing.code, missing.json["error"]["code"]) == (3, "no_forge_tool")
