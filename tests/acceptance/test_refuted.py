"""Whoever looks at a run hears of a refuted check, a killed process, and whose progress it is."""

import pytest

CLAIMS = 'verdict("PASS", AC1=True); ok()'
ACTS = '(repo / f"n{iteration}.txt").touch(); write("heard", request["context"]["notes"]); ok()'


@pytest.fixture
def refuted(project):
    """Return the stopped run of a task whose check claims what its command refutes."""
    project.good_agents()
    project.agent("check", CLAIMS)
    project.agent("act", ACTS, edits=True)
    ac = ("--ac", "AC1: it is there", "--verify", "AC1=test -f nowhere.txt")
    project.treadle("task", "add", "Make it", "--id", "A-1", *ac)
    done = project.treadle("run", "A-1", "--budget", "max_iterations=1")
    return project.only_run()["run_id"], done.err


def test_reports_and_lists_call_it_refuted(project, refuted):
    run_id, progress = refuted
    report = project.treadle("report", run_id).out
    assert "| yes | no (refuted) |" in report
    assert "ok (refuted: AC1)" in report
    assert "FAIL, refuted" in project.treadle("runs", "list").out
    assert project.treadle("runs", "list", "--json").json["runs"][0]["refuted"] == ["AC1"]
    why = project.treadle("why", run_id).out
    assert "AC1 it is there: claimed to pass, refuted: observed to fail" in why
    lines = progress.splitlines()
    told = [line for line in lines if "criteria" in line]
    assert (len(told) > 3, all("A-1" in line for line in told)) == (True, True), progress


def test_a_comment_without_a_step_is_for_the_next_act(project, refuted):
    run_id, _ = refuted
    said = project.treadle("comment", run_id, "use a sum")
    assert (said.code, "the next act step" in said.out) == (0, True)
    resumed = project.treadle("run", "--resume", run_id, "--budget", "max_iterations=2")
    heard = (project.step_dir(run_id, "004-act") / "heard").read_text()
    assert "On step 3:\n> use a sum" in heard
    assert "  A-1  act   1/2" in resumed.err


def test_why_is_right_after_a_kill(project):
    project.good_agents()
    env = {"TREADLE_DIE_AT": "after_agent"}
    words = ("run", "--goal", "g", "--verify", "AC1=test -f done.txt")
    assert project.treadle(*words, env=env).code == -9
    run_id = project.only_run()["run_id"]
    told = project.treadle("why", run_id)
    assert f"run {run_id} was killed (" in told.out
    assert "the process that drove it is gone" in told.out
    assert f"next: treadle run --resume {run_id}" in told.out
    assert "killed" in project.treadle("runs", "list").out
    assert f"{run_id} (killed, verdict none yet)" in project.treadle("runs", "show", run_id).out
