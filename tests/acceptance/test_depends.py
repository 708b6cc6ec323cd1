"""A task that depends on others sees their work, waits for it by name, and lands after it."""

import pytest

from tests.acceptance.site import Site
from tests.builder import git

# Each run writes what it can see besides itself into a file with the task's id.
WORKER = """
name = request["goal"]
seen = sorted(path.name for path in repo.glob("W-*"))
(repo / name).write_text(" ".join(seen) + "\\n")
ok()
"""
# Every run writes the same file.
RIVAL = '(repo / "same.txt").write_text(request["goal"]); (repo / request["goal"]).touch(); ok()'


@pytest.fixture
def site(project):
    project.agent("do", WORKER, edits=True)
    return Site(project)


def add(site, name, *needed, verify=None):
    links = [word for other in needed for word in ("--depends-on", other)]
    check = f"AC1={verify or f'test -f {name}'}"
    done = site.project.treadle("task", "add", name, "--id", name, "--verify", check, *links)
    assert done.code == 0, done


def run(site, *words, code=0):
    result = site.project.treadle("run", *words, "--json")
    assert result.code == code, result
    return result.json


def runs(site, *words, code=0):
    return {row["task_id"]: row for row in run(site, *words, code=code)["runs"]}


def seen(site, row):
    return git(site.root, "show", f"{row['branch']}:{row['task_id']}").split()


def lane(site, name):
    return site.project.treadle("task", "show", name, "--json").json["lane"]


@pytest.mark.parametrize("parallel", ["1", "3"])
def test_a_task_begins_on_the_unlanded_work_of_what_it_depends_on(site, parallel):
    add(site, "W-1")
    add(site, "W-2")
    add(site, "W-3", "W-1", "W-2")
    add(site, "W-4", "W-3")
    found = runs(site, "--parallel", parallel)
    assert seen(site, found["W-1"]) == []
    assert seen(site, found["W-3"]) == ["W-1", "W-2"]
    assert seen(site, found["W-4"]) == ["W-1", "W-2", "W-3"]
    assert not list(site.root.glob("W-*"))
    assert not site.project.treadle("runs", "list", "--json").json["weather"]
    assert site.land(found["W-4"]["run_id"]).code == 0
    assert [lane(site, name) for name in ("W-1", "W-2", "W-3", "W-4")] == ["done"] * 4
    assert git(site.root, "log", "-4", "--format=%s").split()[:2] == ["W-4", "W-3"]


def test_what_landed_is_in_the_base(site):
    add(site, "W-1")
    add(site, "W-2", "W-1")
    first = run(site, "W-1")
    assert site.land(first["run_id"]).code == 0
    found = run(site, "W-2")
    assert (seen(site, found), found["base_commit"]) == (["W-1"], site.tip())


@pytest.mark.real
def test_one_landed_and_one_not_are_both_there(site):
    add(site, "W-1")
    add(site, "W-2")
    add(site, "W-3", "W-1", "W-2")
    found = runs(site, "W-1", "W-2")
    assert site.land(found["W-1"]["run_id"]).code == 0
    assert seen(site, run(site, "W-3")) == ["W-1", "W-2"]


@pytest.mark.real
def test_named_tasks_run_in_the_order_of_their_dependencies(site):
    add(site, "W-1")
    add(site, "W-2", "W-1")
    found = runs(site, "W-2", "W-1", "--parallel", "2")
    assert seen(site, found["W-2"]) == ["W-1"]


@pytest.mark.real
def test_work_that_does_not_go_together_holds_what_depends_on_it(site):
    site.project.agent("do", RIVAL, edits=True)
    add(site, "W-1")
    add(site, "W-2")
    add(site, "W-3", "W-1", "W-2")
    found = runs(site, "W-1", "W-2")
    error = run(site, "W-3", code=3)["error"]
    first, second = (found[name]["run_id"] for name in ("W-1", "W-2"))
    assert error["code"] == "dependency_conflict"
    assert "same.txt" in error["message"]
    assert error["fix"] == [f"treadle land {first}", f"treadle rebase {second}"]
    assert lane(site, "W-3") == "planned"
    for command in error["fix"]:
        done = site.project.treadle(*command.split()[1:])
        assert done.code == 0, done
    assert run(site, "W-3")["status"] == "passed"


@pytest.mark.real
def test_nothing_ready_names_what_each_task_waits_for_and_a_command(site):
    add(site, "W-1", verify="false")
    add(site, "W-2", "W-1")
    add(site, "W-3", "W-2")
    add(site, "W-4")
    run(site, "W-1", "--budget", "max_iterations=1", code=4)
    passed = run(site, "W-4")["run_id"]
    found = {row["task_id"]: row for row in run(site, code=3)["waiting"]}
    stopped = site.project.treadle("task", "show", "W-1", "--json").json["runs"][0]["run_id"]
    resume = f"treadle run --resume {stopped} --budget max_iterations=2"
    assert found["W-1"] == {
        "task_id": "W-1",
        "reason": f"run {stopped} is stopped",
        "command": resume,
        "is_stuck": True,
    }
    assert (found["W-2"]["reason"], found["W-2"]["command"]) == (
        "waits for W-1 (in_progress)",
        resume,
    )
    assert found["W-3"]["command"] == resume
    assert (found["W-4"]["reason"], found["W-4"]["command"]) == (
        "passed, not landed",
        f"treadle land {passed}",
    )
    shown = site.project.treadle("run").out
    assert "W-2 waits for W-1 (in_progress)" in shown
    assert f"  next: {resume}" in shown
    refused = site.project.treadle("run", "W-3", "--json").json["error"]
    assert refused["fix"] == [resume]


@pytest.mark.real
def test_a_canceled_dependency_is_named_with_the_command_that_drops_it(site):
    add(site, "W-1")
    add(site, "W-2", "W-1")
    site.project.treadle("task", "move", "W-1", "--to", "canceled")
    (found,) = run(site, code=3)["waiting"]
    assert found["reason"] == "waits for W-1 (canceled)"
    assert site.project.treadle(*found["command"].split()[1:]).code == 0
    assert run(site, "W-2")["status"] == "passed"


@pytest.mark.real
def test_unknown_and_circular_dependencies_are_refused(site):
    add(site, "W-1")
    add(site, "W-2", "W-1")
    unknown = site.project.treadle("task", "add", "x", "--depends-on", "W-9", "--json")
    assert (unknown.code, unknown.json["error"]["code"]) == (1, "not_found")
    circle = site.project.treadle("task", "link", "W-1", "--depends-on", "W-2", "--json")
    error = circle.json["error"]
    assert (circle.code, error["code"]) == (2, "task_cycle")
    assert "W-1 → W-2 → W-1" in error["message"]
    assert site.project.treadle(*error["fix"][0].split()[1:]).code == 0


@pytest.mark.real
def test_a_passed_task_is_approved_then_done_and_approved_again_after_undo(site):
    add(site, "W-1")
    passed = run(site, "W-1")["run_id"]
    assert lane(site, "W-1") == "approved"
    status = site.root / ".treadle" / "mail" / "TASKS" / "W-1.status"
    assert "status: in_progress" in status.read_text()
    assert "passed, not landed" in site.project.treadle("task", "list").out
    again = site.project.treadle("run", "W-1", "--json").json["error"]
    assert (again["code"], again["fix"][0]) == ("task_passed", f"treadle land {passed}")
    assert site.land(passed).code == 0
    assert lane(site, "W-1") == "done"
    assert "status: completed" in status.read_text()
    assert site.undo(passed).code == 0
    assert lane(site, "W-1") == "approved"
    assert site.land(passed).code == 0
    assert lane(site, "W-1") == "done"


@pytest.mark.real
def test_a_run_without_changes_is_done_at_once(site):
    site.project.agent("do", "ok()", edits=True)
    add(site, "W-1", verify="true")
    run(site, "W-1")
    assert lane(site, "W-1") == "done"


@pytest.mark.real
def test_a_claim_waits_until_the_work_has_landed(site):
    add(site, "W-1")
    add(site, "W-2", "W-1")
    passed = run(site, "W-1")["run_id"]
    error = site.project.treadle("task", "claim", "W-2", "--as", "dev", "--json").json["error"]
    assert (error["code"], error["fix"]) == ("task_waiting", [f"treadle land {passed}"])
    assert site.land(passed).code == 0
    assert site.project.treadle("task", "claim", "W-2", "--as", "dev").code == 0


@pytest.mark.real
@pytest.mark.parametrize("point", ["before_ground", "after_ground", "before_run_row"])
def test_a_kill_while_the_ground_is_laid_loses_and_doubles_nothing(site, point):
    add(site, "W-1")
    add(site, "W-2")
    add(site, "W-3", "W-1", "W-2")
    runs(site, "W-1", "W-2")
    killed = site.project.treadle("run", "W-3", env={"TREADLE_DIE_AT": point})
    assert killed.code == -9, killed
    run(site, "W-3")
    rows = site.project.treadle("task", "show", "W-3", "--json").json["runs"]
    passed = [row for row in rows if row["status"] == "passed"]
    assert len(passed) == 1
    assert seen(site, passed[0]) == ["W-1", "W-2"]
    git(site.root, "fsck", "--strict")


@pytest.mark.real
@pytest.mark.parametrize("point", ["after_move", "before_landed", "after_landed"])
def test_a_kill_while_landing_leaves_the_task_done(site, point):
    add(site, "W-1")
    passed = run(site, "W-1")["run_id"]
    killed = site.project.treadle("land", passed, env={"TREADLE_DIE_AT": point})
    assert killed.code == -9, killed
    site.project.treadle("run")
    assert lane(site, "W-1") == "done"
    assert git(site.root, "log", "--format=%s").splitlines().count("W-1") == 1


STUBBORN = """
name = request["goal"]
seen = sorted(path.name for path in repo.glob("W-*"))
(repo / name).write_text(" ".join(seen) + "\\n")
if (repo / "ready").exists():
    (repo / "good").touch()
ok()
"""


@pytest.mark.real
def test_a_run_resumed_after_what_it_builds_on_landed_stands_on_the_branch(site):
    add(site, "W-1")
    add(site, "W-2", "W-1", verify="test -f good")
    first = run(site, "W-1")
    site.project.agent("act", STUBBORN, edits=True)
    stopped = run(site, "W-2", "--budget", "max_iterations=1", code=4)
    assert stopped["base_commit"] == first["head_commit"]
    assert site.land(first["run_id"]).code == 0
    site.commit("ready", "yes\n")
    words = ("--resume", stopped["run_id"], "--budget", "max_iterations=3")
    found = run(site, *words)
    assert (found["status"], found["base_commit"]) == ("passed", site.tip())
    assert "rebased" in site.project.event_types(stopped["run_id"])
    assert site.land(stopped["run_id"]).code == 0
    assert {"W-1", "W-2", "good", "ready"} <= set(site.files())


@pytest.mark.real
def test_a_rebuilt_store_knows_what_has_landed(site):
    add(site, "W-1")
    add(site, "W-2")
    found = runs(site)
    assert site.land(found["W-1"]["run_id"]).code == 0
    for path in (site.root / ".treadle").glob("treadle.db*"):
        path.unlink()
    assert site.project.treadle("doctor", "--repair").code == 0
    assert [lane(site, name) for name in ("W-1", "W-2")] == ["done", "approved"]


@pytest.mark.real
def test_a_task_whose_run_waits_for_approval_leads_to_what_is_asked(site):
    site.project.agent("do", '(repo / ".envrc").write_text("x"); ok()', edits=True)
    add(site, "W-1", verify="test -f .envrc")
    run(site, "W-1", code=4)
    (found,) = run(site, code=3)["waiting"]
    (item,) = site.project.treadle("desk", "--json").json["items"]
    assert found["command"] == f"treadle desk show {item['item_id']}"
    assert site.project.treadle(*found["command"].split()[1:]).code == 0
