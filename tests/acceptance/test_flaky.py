"""A failing check is run once more on the same tree: only one that fails each time has failed."""

import json

import pytest


@pytest.fixture
def flaky(project):
    """A project with a check that fails every time its count is among some; it counts its runs."""
    place = project.folder / "count"
    place.mkdir()
    count = place / "n"
    count.write_text("0")
    project.agent("do", '(repo / "done.txt").write_text("done"); ok()', edits=True)

    def configure(checks=""):
        folder = json.dumps(str(place))
        project.settings(f"[checks]\nwritable = [{folder}]\n{checks}\n")

    def run(*failing):
        """Let the check fail in these runs of it, the first of which sees no work yet."""
        wrong = "|".join(map(str, (1, *failing)))
        command = (
            f"n=$(($(cat {count}) + 1)); echo $n > {count}; echo run $n;"
            f" case $n in {wrong}) exit 1;; esac; test -f done.txt"
        )
        return project.run_json("--verify", f"AC1={command}", "--budget", "max_iterations=1")

    project.configure, project.try_ = configure, run
    project.count = lambda: int(count.read_text())
    configure()
    return project


def checks(project, run_id):
    step = project.step_dir(run_id, "003-check") / "files/checks"
    return step, json.loads((step / "observed.json").read_text())[0]


def test_a_command_that_fails_once_is_flaky_and_passes(flaky):
    found = flaky.try_(2)
    assert found["status"] == "passed"
    assert flaky.count() == 3  # before any work, then twice
    event = flaky.event(found["run_id"], "check_flaky")
    assert event["data"] == {"id": "AC1"}
    assert "failed with exit code 1, then passed on the same tree" in event["message"]
    assert "check_flaky: AC1 flaky: it failed" in flaky.treadle("why", found["run_id"]).out
    assert "flaky: it failed" in flaky.treadle("report", found["run_id"]).out
    folder, seen = checks(flaky, found["run_id"])
    assert (seen["pass"], seen["flaky"]) == (True, True)
    assert (folder / "first/AC1.txt").read_text() == "run 2\n"
    assert (folder / "AC1.txt").read_text() == "run 3\n"


def test_a_command_that_fails_twice_has_failed(flaky):
    found = flaky.try_(2, 3)
    assert (found["verdict"], flaky.count()) == ("FAIL", 3)
    assert "check_flaky" not in flaky.event_types(found["run_id"])
    assert "flaky" not in checks(flaky, found["run_id"])[1]


def test_one_that_passes_is_not_run_again(flaky):
    assert flaky.try_()["status"] == "passed"
    assert flaky.count() == 2


@pytest.mark.real
def test_flaky_fail_is_strict(flaky):
    flaky.configure('flaky = "fail"')
    found = flaky.try_(2)
    assert (found["verdict"], flaky.count()) == ("FAIL", 3)
    _, seen = checks(flaky, found["run_id"])
    assert (seen["pass"], seen["log"]) == (False, "files/checks/first/AC1.txt")
    assert flaky.event(found["run_id"], "check_flaky")
    (view,) = flaky.show(found["run_id"])["criteria"]
    assert view["evidence"] == "003-check/files/checks/first/AC1.txt"


@pytest.mark.real
@pytest.mark.parametrize(("repeat", "runs"), [(1, 2), (4, 5)])
def test_repeat_says_how_often(flaky, repeat, runs):
    flaky.configure(f"repeat = {repeat}")
    assert flaky.try_(*range(2, 9))["verdict"] == "FAIL"
    assert flaky.count() == runs


@pytest.mark.real
def test_a_flaky_result_is_not_reused_for_the_same_tree(flaky):
    flaky.agent("check", 'verdict("FAIL", AC1=False); ok()')
    flaky.agent("act", "ok()")
    first = flaky.try_(2)
    assert flaky.count() == 3
    more = ("--budget", "max_iterations=2")
    flaky.treadle("run", "--resume", first["run_id"], *more)
    assert flaky.count() == 4


@pytest.mark.real
def test_a_steady_result_is_reused_for_the_same_tree(flaky):
    flaky.agent("check", 'verdict("FAIL", AC1=False); ok()')
    flaky.agent("act", "ok()")
    first = flaky.try_()
    flaky.treadle("run", "--resume", first["run_id"], "--budget", "max_iterations=2")
    assert flaky.count() == 2


@pytest.mark.real
def test_a_failure_is_looked_at_again_after_a_resume(flaky):
    """What made it fail may be mended outside the tree: a service, the network, a clock."""
    flaky.agent("act", "ok()")
    first = flaky.try_(2, 3)
    assert (first["verdict"], flaky.count()) == ("FAIL", 3)
    flaky.treadle("run", "--resume", first["run_id"], "--budget", "max_iterations=2")
    assert (flaky.show(first["run_id"])["status"], flaky.count()) == ("passed", 4)


@pytest.mark.real
@pytest.mark.parametrize("bad", ["repeat = 0", 'repeat = "often"', 'flaky = "maybe"'])
def test_settings_that_make_no_sense_name_their_key(flaky, bad):
    flaky.configure(bad)
    found = flaky.treadle("run", "--goal", "x", "--verify", "AC1=false")
    assert found.code == 1
    assert f"checks.{bad.split()[0]}" in found.err
