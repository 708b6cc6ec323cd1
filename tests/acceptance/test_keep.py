"""What stays of runs: unlanded work always, the newest runs, a few workspaces, no old branches."""

import sqlite3

import pytest

from tests.acceptance.site import Site
from tests.builder import git

OLD = "2020-01-01T00:00:00.000000Z"


@pytest.fixture
def site(project):
    project.agent("do", '(repo / request["goal"]).touch(); ok()', edits=True)
    return Site(project)


def run(site, name, verify=None):
    verify = verify or f"test -f {name}"
    words = ("--goal", name, "--verify", f"AC1={verify}", "--budget", "max_iterations=1")
    return site.project.treadle("run", *words, "--json").json["run_id"]


def prune(site, *words):
    result = site.project.treadle("runs", "prune", *words, "--json")
    assert result.code == 0, result
    return result.json


def branches(site):
    listed = git(site.root, "for-each-ref", "--format=%(refname:short)", "refs/heads/treadle")
    return [name.removeprefix("treadle/") for name in listed.split()]


def age(site, *run_ids):
    """Let runs be old: they were begun and ended years ago."""
    with sqlite3.connect(site.root / ".treadle" / "treadle.db") as store:
        for run_id in run_ids:
            store.execute(
                "UPDATE runs SET created_at = ?, ended_at = ? WHERE run_id = ?", (OLD, OLD, run_id)
            )


def workspaces(site):
    links = (site.root / ".treadle" / "runs").glob("*/workspace")
    return sorted(path.parent.name for path in links if path.exists())


def test_prune_keeps_what_passed_and_has_not_landed_and_names_it(site):
    passed, failed = run(site, "one"), run(site, "two", verify="false")
    found = prune(site, "--history")
    assert found["runs"] == [failed]
    assert branches(site) == [passed]
    work = {"run_id": passed, "goal": "one", "branch": f"treadle/{passed}", "files": ["one"]}
    assert found["unlanded"] == [work]
    shown = site.project.treadle("runs", "prune", "--history").out
    assert f"kept run {passed} (one) passed and has not landed: one" in shown
    assert f"  next: treadle land {passed}" in shown
    would = site.project.treadle("runs", "prune", "--history", "--unlanded", "--dry-run").out
    assert "would be lost" in would
    assert branches(site) == [passed]
    assert prune(site, "--history", "--unlanded")["runs"] == [passed]
    assert branches(site) == []


def test_a_task_whose_work_was_pruned_is_planned_again(site):
    site.project.treadle("task", "add", "one", "--id", "A", "--verify", "AC1=test -f one")
    site.project.treadle("run", "A")
    prune(site, "--history", "--unlanded")
    assert site.project.treadle("task", "show", "A", "--json").json["lane"] == "planned"
    assert site.project.treadle("run", "A").code == 0


def test_a_landed_run_has_no_branch_and_an_undone_one_has_it_again(site):
    passed = run(site, "one")
    head = site.tip(f"treadle/{passed}")
    assert site.land(passed).code == 0
    assert branches(site) == []
    git(site.root, "cat-file", "-e", head)
    assert site.undo(passed).code == 0
    assert site.tip(f"treadle/{passed}") == head
    assert site.land(passed).code == 0
    prune(site, "--history")
    assert git(site.root, "for-each-ref", "refs/treadle") == ""


@pytest.mark.real
def test_a_branch_that_somebody_stands_on_stays(site):
    passed = run(site, "one")
    git(site.root, "worktree", "add", "-q", str(site.root.parent / "mine"), f"treadle/{passed}")
    assert site.land(passed).code == 0
    assert branches(site) == [passed]


@pytest.mark.real
def test_runs_are_kept_by_number_and_by_age(site):
    site.project.settings("[keep]\nruns = 1\ndays = 30\n")
    landed = run(site, "landed")
    assert site.land(landed).code == 0
    first, second, third, last = (run(site, f"x{n}", verify="false") for n in range(4))
    age(site, first, second, landed)
    for item in site.project.treadle("desk", "--json").json["items"]:
        if item["run_id"] == first:
            site.project.treadle("answer", item["item_id"], "--option", "2")
    found = prune(site)
    # The second is asked about, the third is young, the last is the newest.
    assert found["runs"] == [first, landed]
    listed = {row["run_id"] for row in site.project.treadle("runs", "list", "--json").json["runs"]}
    assert listed == {second, third, last}


@pytest.mark.real
def test_what_another_run_builds_on_stays(site):
    for name, *more in (("A",), ("B", "--depends-on", "A")):
        verify = f"AC1=test -f {name}"
        site.project.treadle("task", "add", name, "--id", name, "--verify", verify, *more)
    site.project.treadle("run")
    runs = {row["task_id"]: row["run_id"] for row in _listed(site)}
    assert site.land(runs["A"]).code == 0
    assert prune(site, "--history")["runs"] == []
    assert site.land(runs["B"]).code == 0
    assert sorted(prune(site, "--history")["runs"]) == sorted(runs.values())


def _listed(site):
    return site.project.treadle("runs", "list", "--json").json["runs"]


@pytest.mark.real
def test_serve_applies_it_once_a_day(site):
    site.project.settings("[keep]\nruns = 1\ndays = 30\n")
    landed, newest = run(site, "landed"), run(site, "newest")
    assert site.land(landed).code == 0
    age(site, landed)
    assert site.project.treadle("serve", "--once").code == 0
    assert [row["run_id"] for row in _listed(site)] == [newest]
    later = run(site, "later")
    assert site.land(newest).code == 0
    age(site, newest)
    assert site.project.treadle("serve", "--once").code == 0
    assert [row["run_id"] for row in _listed(site)] == [later, newest]


@pytest.mark.real
def test_the_newest_workspaces_stay_and_older_ones_are_made_anew(site):
    site.project.settings("[workspace]\nkeep = 1\n")
    first, second = run(site, "one", verify="false"), run(site, "two", verify="false")
    assert workspaces(site) == [second]
    resumed = site.project.treadle("run", "--resume", first, "--budget", "max_iterations=2")
    assert resumed.code == 4, resumed
    doctor = site.project.treadle("doctor").out
    assert "1 workspace, " in doctor


@pytest.mark.real
def test_purge_removes_the_branches_of_runs_and_counts_them(site):
    passed, other = run(site, "one"), run(site, "two")
    git(site.root, "branch", "treadle/mine")
    assert site.land(other).code == 0
    said = site.project.treadle("uninstall", "--purge").out
    assert "branches of runs, 2 in all" in said
    assert f"treadle/{passed}" in said
    assert branches(site) == ["mine"]
    assert git(site.root, "for-each-ref", "refs/treadle") == ""


@pytest.mark.real
@pytest.mark.parametrize("point", ["after_folder", "after_row"])
def test_a_kill_while_pruning_loses_nothing_else(site, point):
    landed, passed = run(site, "one"), run(site, "two")
    assert site.land(landed).code == 0
    killed = site.project.treadle("runs", "prune", "--history", env={"TREADLE_DIE_AT": point})
    assert killed.code == -9, killed
    prune(site, "--history")
    assert [row["run_id"] for row in _listed(site)] == [passed]
    assert branches(site) == [passed]
    assert site.land(passed).code == 0
    git(site.root, "fsck", "--strict")


@pytest.mark.real
@pytest.mark.parametrize("what", ["land", "undo"])
def test_a_kill_while_a_branch_is_put_away_or_brought_back(site, what):
    passed = run(site, "one")
    if what == "undo":
        assert site.land(passed).code == 0
    killed = site.project.treadle(what, passed, env={"TREADLE_DIE_AT": "before_landed"})
    assert killed.code == -9, killed
    site.project.treadle("run")
    assert branches(site) == ([passed] if what == "undo" else [])
