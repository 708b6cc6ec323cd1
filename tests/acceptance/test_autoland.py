"""With `land.run = "auto"` passed runs land by themselves, and a series goes on if one cannot."""

import pytest

from tests.acceptance.site import Site
from tests.acceptance.untouched import untouched
from tests.builder import git

AUTO = '[land]\nrun = "auto"\n'
# Each run writes a file with the task's id; the criterion looks for it.
WORKER = 'name = request["goal"]; (repo / name).write_text(name); ok()'


@pytest.fixture
def site(project):
    found = Site(project)
    project.settings(AUTO)
    project.agent("do", WORKER, edits=True)
    git(project.root, "commit", "-q", "-m", "Settings", "--", ".treadle/config.toml")
    return found


def add(site, *names):
    for name in names:
        verify = f"AC1=test -f {name}"
        site.project.treadle("task", "add", name, "--id", name, "--verify", verify)


def run(site, *options):
    with untouched(site.root):
        return site.project.treadle("run", *options, "--json")


def test_a_run_that_passes_lands(site):
    result = run(site, "--goal", "one", "--verify", "AC1=test -f one")
    assert (result.code, result.json["landed"]) == (0, site.tip())
    assert (site.root / "one").exists()


def test_a_run_that_does_not_pass_does_not_land(site):
    tip = site.tip()
    options = ("--verify", "AC1=false", "--budget", "max_iterations=1")
    result = run(site, "--goal", "one", *options)
    assert (result.code, result.json["landed"], site.tip()) == (4, None, tip)


def test_a_series_lands_one_after_the_other(site):
    add(site, "A-1", "A-2", "A-3")
    result = run(site)
    assert result.code == 0, result
    subjects = git(site.root, "log", "-3", "--format=%s").split()
    assert subjects == ["A-3", "A-2", "A-1"]


def test_runs_side_by_side_all_land(site):
    add(site, "A-1", "A-2", "A-3", "A-4")
    result = run(site, "--parallel", "3")
    assert result.code == 0, result
    assert {"A-1", "A-2", "A-3", "A-4"} <= set(site.files())


def test_a_landing_that_is_refused_is_exit_3_and_a_question(site):
    site.write("one", "mine\n")
    result = run(site, "--goal", "one", "--verify", "AC1=test -f one")
    assert (result.code, result.json["status"], result.json["landed"]) == (3, "passed", None)
    run_id = result.json["run_id"]
    assert site.project.event(run_id, "land_refused")["data"]["code"] == "file_in_the_way"
    (site.root / "one").unlink()
    assert site.land(run_id).code == 0


def test_the_next_run_builds_on_one_that_could_not_land(site):
    add(site, "A-1", "A-2")
    site.write("A-1", "mine\n")
    result = run(site)
    assert result.code == 3
    first, second = result.json["runs"]
    assert second["base_commit"] == first["head_commit"]
    below = site.refused(second["run_id"], "stacked")
    assert f"treadle land {first['run_id']}" in below["fix"]
    (site.root / "A-1").unlink()
    assert site.land(first["run_id"]).code == 0
    landed = site.land(second["run_id"])
    assert (landed.code, landed.json["merged"]) == (0, False)
    assert {"A-1", "A-2"} <= set(site.files())
    assert site.project.show(second["run_id"])["landed"] == site.tip()
