"""Landing what builds on something else, several runs at once, and what was merged by hand."""

import pytest

from tests.acceptance.site import Site
from tests.builder import git
from tests.crash.landing import landings

# Each run writes a file with the task's id, and the last word of its goal into shared.txt.
WORKER = """
name = request["goal"].split()[0]
(repo / name).write_text(name)
if "clash" in request["goal"]:
    (repo / "shared.txt").write_text(name + "\\n")
ok()
"""


@pytest.fixture
def site(project):
    found = Site(project)
    project.agent("do", WORKER, edits=True)
    found.commit("shared.txt", "base\n")
    git(project.root, "commit", "-q", "-m", "Settings", "--", ".treadle/config.toml", check=False)
    return found


def add(site, name, *options, goal=None):
    verify = ("--verify", f"AC1=test -f {name}")
    done = site.project.treadle("task", "add", goal or name, "--id", name, *verify, *options)
    assert done.code == 0, done


def run(site, *names):
    """Run the tasks side by side and return their runs' ids."""
    done = site.project.treadle("run", *names, "--parallel", str(len(names)), "--json")
    assert done.code == 0, done
    rows = site.project.treadle("runs", "list", "--json").json["runs"]
    return [next(row["run_id"] for row in rows if row["task_id"] == name) for name in names]


def stacked(site):
    """Return three runs, each on top of the one before."""
    add(site, "A")
    add(site, "B", "--depends-on", "A")
    add(site, "C", "--depends-on", "B")
    done = site.project.treadle("run", "A", "B", "C", "--json")
    assert done.code == 0, done
    return [row["run_id"] for row in done.json["runs"]]


def test_landing_a_stacked_run_lands_what_lies_below_first(site):
    first, second, third = stacked(site)
    result = site.land(third)
    assert result.code == 0, result
    landed = [item["run_id"] for item in result.json["below"]]
    assert landed == [first, second]
    assert git(site.root, "log", "-3", "--format=%s").split() == ["C", "B", "A"]
    assert all(site.project.show(run_id)["landed"] for run_id in (first, second, third))


def test_what_was_undone_below_is_not_landed_again_unasked(site):
    first, second, _ = stacked(site)
    site.land(first)
    site.undo(first)
    error = site.refused(second, "stacked")
    assert error["fix"] == [f"treadle land {first}", f"treadle land {second}"]
    for command in error["fix"]:
        assert site.project.treadle(*command.split()[1:]).code == 0


def test_what_keeps_the_lowest_from_landing_is_told(site):
    first, second, _ = stacked(site)
    site.write("A", "mine\n")
    error = site.refused(second, "stacked")
    assert f"run {first}, which cannot land: files" in error["message"]
    assert error["fix"][0] == "mv A A.mine"


@pytest.mark.real
@pytest.mark.parametrize(
    "point",
    [
        "after_intent:2",
        "after_landed:1",
        *(pytest.param(at, marks=pytest.mark.real) for at in ("after_move:2", "after_intent:3")),
    ],
)
def test_a_killed_stacked_landing_lands_each_once(site, point):
    runs = stacked(site)
    killed = site.project.treadle("land", runs[-1], env={"TREADLE_DIE_AT": point})
    assert killed.code == -9, killed
    assert site.project.treadle("land", runs[-1]).code in (0, 3)
    assert [landings(site, run_id) for run_id in runs] == [["A"], ["B"], ["C"]]
    assert git(site.root, "status", "--porcelain") == ""


@pytest.mark.real
def test_all_lands_those_without_conflicts_first_and_says_what_is_left(site):
    add(site, "A", goal="A clash")
    add(site, "B", goal="B clash")
    add(site, "C")
    first, second, third = run(site, "A", "B", "C")
    order = site.project.treadle("land", "--all", "--dry-run", "--json").json["order"]
    assert order == [third, *sorted((first, second))]
    shown = site.project.treadle("land", "--all", "--dry-run").out.splitlines()
    assert [line.split()[0] for line in shown] == order
    tip = site.tip()
    result = site.project.treadle("land", "--all", "--json")
    assert result.code == 3, result
    assert [item["run_id"] for item in result.json["landed"]] == order[:2]
    (left,) = result.json["left"]
    assert (left["run_id"], left["code"]) == (order[2], "merge_conflict")
    assert left["fix"] == [f"treadle rebase {order[2]}"]
    assert git(site.root, "rev-list", "--count", f"{tip}..") == "2\n"
    told = site.project.treadle("land", "--all")
    assert (told.code, f"  next: treadle rebase {order[2]}" in told.out) == (3, True)


@pytest.mark.real
def test_several_that_are_named_land_after_what_they_build_on(site):
    first, _, third = stacked(site)
    result = site.project.treadle("land", third, first, "--json")
    assert result.code == 0, result
    assert [item["run_id"] for item in result.json["landed"]] == [first, third]
    assert site.project.treadle("land", "--all", "--json").json == {"landed": [], "left": []}


@pytest.mark.real
def test_neither_runs_nor_all_is_refused(site):
    result = site.project.treadle("land", "--json")
    assert (result.code, result.json["error"]["fix"][0]) == (2, "treadle land --all")


@pytest.mark.real
def test_an_undone_run_is_not_landed_by_all(site):
    add(site, "A")
    (run_id,) = run(site, "A")
    site.land(run_id)
    site.undo(run_id)
    assert site.project.treadle("land", "--all", "--json").json == {"landed": [], "left": []}


@pytest.mark.real
@pytest.mark.parametrize(
    "merge",
    [
        ("merge", "-q", "--no-ff", "-m", "By hand"),
        ("merge", "-q", "--squash"),
        ("cherry-pick",),
    ],
    ids=lambda words: words[0] + words[-1],
)
def test_a_merge_by_hand_is_recognised_recorded_and_can_be_undone(site, merge):
    add(site, "A", goal="A clash")
    (run_id,) = run(site, "A")
    site.commit("other.txt", "other\n")
    before = site.tree()
    git(site.root, *merge, f"treadle/{run_id}")
    git(site.root, "commit", "-q", "-m", "Squashed", check=False)
    tip = site.tip()
    result = site.land(run_id)
    assert (result.code, result.json["landed"], result.json["by_hand"]) == (0, tip, True), result
    assert site.tip() == tip
    assert site.project.treadle("task", "show", "A", "--json").json["lane"] == "done"
    assert "by hand" in site.project.event(run_id, "landed")["message"]
    assert site.undo(run_id).code == 0
    assert site.tree() == before


@pytest.mark.real
def test_a_conflict_that_was_merged_by_hand_is_recognised(site):
    add(site, "A", goal="A clash")
    (run_id,) = run(site, "A")
    site.commit("shared.txt", "mine\n")
    git(site.root, "merge", "-q", f"treadle/{run_id}", check=False)
    site.write("shared.txt", "both\n")
    git(site.root, "commit", "-qam", "Both")
    assert site.land(run_id).json["by_hand"]
    assert site.project.treadle("runs", "show", run_id, "--json").json["landed"] == site.tip()


def test_landing_all_leaves_out_what_belongs_to_a_canceled_task(site):
    add(site, "A")
    add(site, "B")
    run(site, "A", "B")
    moved = site.project.treadle(
        "task", "move", "A", "--to", "canceled", "--force", "--reason", "no"
    )
    assert moved.code == 0, moved
    result = site.project.treadle("land", "--all", "--json")
    assert result.code == 0, result
    assert git(site.root, "log", "-1", "--format=%s").split() == ["B"]
    assert not (site.root / "A").exists()
