"""Kill the real command while a run ends; task, desk, letters and landing still learn of it."""

import pytest

from tests.acceptance.site import Site
from tests.builder import git

WORKER = 'name = request["goal"]; (repo / name).write_text(name); ok()'
FAILING = "import sys; sys.exit(7)"


def recover(project):
    """Let the next command that works find what the killed one left."""
    project.treadle("doctor", "--repair")


def state(project):
    """Return all that a run's end says outside of the run."""
    found = project.only_run()
    kinds = [item["kind"] for item in project.treadle("desk", "--json").json["items"]]
    letters = project.treadle("mail", "list", "--json").json["letters"]
    lane = project.treadle("task", "show", "T-1", "--json").json["lane"]
    reports = [item["intent"] for item in letters if item["task_id"] == "T-1"]
    return found["status"], found["owner"], lane, kinds, reports


@pytest.mark.real
@pytest.mark.parametrize(
    "point", ["after_rename", "after_transaction", "before_end", "before_release"]
)
def test_a_failed_run_is_told_of_after_a_kill(project, point):
    project.agent("plan", FAILING)
    project.agent("do", WORKER, edits=True)
    project.treadle("task", "add", "one", "--id", "T-1", "--verify", "AC1=test -f one")
    assert project.treadle("run", "T-1", env={"TREADLE_DIE_AT": point}).code == -9
    recover(project)
    assert state(project) == ("failed", None, "blocked", ["failed_run"], ["test_results"])
    recover(project)
    assert state(project) == ("failed", None, "blocked", ["failed_run"], ["test_results"])


@pytest.mark.real
def test_a_later_pass_answers_what_earlier_runs_of_the_task_asked(project):
    project.agent("plan", FAILING)
    project.agent("do", WORKER, edits=True)
    project.treadle("task", "add", "one", "--id", "T-1", "--verify", "AC1=test -f one")
    project.treadle("run", "T-1")
    (item,) = project.treadle("desk", "--json").json["items"]
    assert item["kind"] == "failed_run"
    project.agent("plan", "ok()")
    assert project.treadle("run", "T-1").code == 0
    assert project.treadle("desk", "--json").json["items"] == []


def test_a_letter_is_refused_once_however_often_recovery_finds_it(project):
    project.agent("plan", 'write("outbox/bad.md", "# MESSAGE\\nfrom: a\\n\\n"); ok()')
    project.agent("do", FAILING, edits=True)
    project.treadle("task", "add", "one", "--id", "T-1", "--verify", "AC1=test -f one")
    for words, point in ((("T-1",), "before_rename:2"), (("--resume", "2"), "before_rename")):
        assert project.treadle("run", *words, env={"TREADLE_DIE_AT": point}).code == -9
        recover(project)
    assert project.event_types(project.only_run()["run_id"]).count("letter_refused") == 1


@pytest.mark.parametrize(
    "point", ["after_rename:3", "after_transaction:3", "before_end", "before_release", "after_move"]
)
def test_a_passed_run_lands_by_itself_after_a_kill(project, point):
    site = Site(project)
    project.settings('[land]\nrun = "auto"\n')
    project.agent("do", WORKER, edits=True)
    git(project.root, "commit", "-q", "-m", "Settings", "--", ".treadle/config.toml")
    words = ("run", "--goal", "one", "--verify", "AC1=test -f one")
    assert project.treadle(*words, env={"TREADLE_DIE_AT": point}).code == -9
    recover(project)
    found = project.only_run()
    assert (found["status"], found["owner"]) == ("passed", None)
    assert project.show(found["run_id"])["landed"] == site.tip()
    assert git(site.root, "log", "-2", "--format=%s").split("\n")[:2] == ["one", "Settings"]


@pytest.mark.real
def test_an_approval_is_carried_through_after_a_kill(project):
    (project.root / "test_it.py").write_text("assert open('it').read() == '1'\n")
    project.git("add", ".")
    project.git("commit", "-q", "-m", "Test")
    project.agent("do", '(repo / "test_it.py").write_text(""); ok()', edits=True)
    found = project.run_json("--verify", "AC1=python3 test_it.py")
    assert found["reason_code"] == "protected_changed"
    words = ("run", "--resume", found["run_id"], "--approve", "protected")
    assert project.treadle(*words, env={"TREADLE_DIE_AT": "after_run_file"}).code == -9
    assert project.treadle(*words, env={"TREADLE_DIE_AT": "before_end:2"}).code == -9
    recover(project)
    assert project.show(found["run_id"])["status"] == "passed"
    assert project.treadle("desk", "--json").json["items"] == []


@pytest.mark.parametrize("point", ["after_move", "before_landed"])
def test_the_others_of_a_set_are_closed_after_a_kill(project, point):
    project.agent("a", WORKER, edits=True)
    project.agent("b", WORKER, edits=True)
    project.treadle("task", "add", "one", "--id", "T-1", "--verify", "AC1=test -f one")
    assert project.treadle("run", "T-1", "--try", "a", "--try", "b").code == 0
    assert project.treadle("land", "T-1", env={"TREADLE_DIE_AT": point}).code == -9
    recover(project)
    found = project.treadle("compare", "T-1", "--json").json["tries"]
    assert [bool(it["landed"]) for it in found] == [True, False]
    assert found[1]["reason_code"] == "superseded"
    assert project.event_types(found[1]["run_id"]).count("superseded") == 1
    assert project.treadle("task", "show", "T-1", "--json").json["lane"] == "done"
