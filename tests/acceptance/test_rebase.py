"""`treadle rebase`: the run's change on what came meanwhile; a conflict goes to act, then check."""

import pytest

from tests.acceptance.messages import routine
from tests.acceptance.site import Site
from tests.builder import git, wait_for
from tests.crash.landing import landings

DO = '(repo / "shared.txt").write_text("run\\n"); (repo / "done.txt").write_text("1"); ok()'
# Takes both sides of a conflict.
ACT = """
asked = [item["id"] for item in request["norma"]["acceptance_criteria"]]
text = (repo / "shared.txt").read_text()
assert "resolve" in asked and "shared.txt" in str(request["norma"]["acceptance_criteria"][-1])
assert "<<<<<<<" in text
(repo / "shared.txt").write_text("mine\\nrun\\n"); ok("resolved")
"""
GOAL = ("run", "--goal", "Make done", "--ac", "works", "--verify", "AC1=grep -q run shared.txt")


@pytest.fixture
def site(project):
    found = Site(project)
    project.agent("do", DO, edits=True)
    project.agent("act", ACT, edits=True)
    found.commit("shared.txt", "base\n")
    git(project.root, "commit", "-q", "-m", "Settings", "--", ".treadle/config.toml", check=False)
    return found


def passed(site, *options):
    done = site.project.treadle(*GOAL, *options, "--json")
    assert done.json["status"] == "passed", done
    return done.json["run_id"]


def rebase(site, run_id, **kwargs):
    return site.project.treadle("rebase", run_id, "--json", **kwargs)


def refused(site, run_id, code):
    before = site.state()
    result = rebase(site, run_id)
    assert (result.code, result.json["error"]["code"]) == (3, code), result
    assert site.state() == before
    return result.json["error"]


def test_a_change_that_merges_is_checked_again_and_lands(site):
    run_id = passed(site)
    site.commit("other.txt", "other\n")
    tip, tasks = site.tip(), site.project.show(run_id)["current_step_index"]
    result = rebase(site, run_id)
    assert (result.code, result.json["status"], result.json["conflicts"]) == (0, "passed", [])
    shown = site.project.show(run_id)
    assert shown["base_commit"] == tip == site.tip(f"treadle/{run_id}~1")
    assert [step["role"] for step in shown["steps"]][tasks:] == ["check"]
    assert {"other.txt", "done.txt"} <= set(site.files(f"treadle/{run_id}"))
    landed = site.land(run_id)
    assert (landed.code, landed.json["merged"]) == (0, False)
    assert site.undo(run_id).json["exact"]


def test_a_conflict_goes_to_act_then_check_then_lands(site):
    run_id = passed(site)
    site.commit("shared.txt", "mine\n")
    fix = site.refused(run_id, "merge_conflict")["fix"]
    assert fix == [f"treadle rebase {run_id}"]
    assert site.project.treadle("why", run_id, "--json").json["next"][-1] == fix[0]
    (waits,) = site.project.treadle("status", "--json").json["unlanded"]
    assert waits["next"] == f"treadle rebase {run_id[-6:]}"
    result = site.project.treadle(*fix[0].split()[1:], "--json")
    assert (result.code, result.json["conflicts"]) == (0, ["shared.txt"]), result
    shown = site.project.show(run_id)
    assert [step["role"] for step in shown["steps"]][-2:] == ["act", "check"]
    assert {item["id"]: item["observed"] for item in shown["criteria"]} == {
        "AC1": True,
        "resolve": True,
    }
    assert site.land(run_id).code == 0
    assert (site.root / "shared.txt").read_text() == "mine\nrun\n"
    assert landings(site, run_id) == ["Make done"]


def test_a_conflict_that_act_leaves_in_does_not_pass(site):
    run_id = passed(site, "--budget", "max_iterations=1")
    site.project.agent("act", 'ok("nothing")', edits=True)
    site.commit("shared.txt", "mine\n")
    result = rebase(site, run_id)
    assert (result.code, result.json["status"]) == (4, "stopped"), result
    assert site.project.show(run_id)["criteria"][-1]["observed"] is False


@pytest.mark.real
def test_the_question_of_a_refused_landing_offers_it(site):
    site.project.settings('[land]\nrun = "auto"\n')
    git(site.root, "commit", "-q", "-m", "Auto", "--", ".treadle/config.toml")
    process = site.project.start(*GOAL, "--json", env={"TREADLE_DIE_AT": "before_end"})
    process.communicate()
    site.commit("shared.txt", "mine\n")
    site.project.treadle("doctor", "--repair")
    (item,) = site.project.treadle("desk", "--json").json["items"]
    run_id = item["run_id"]
    assert [action["command"] for action in item["actions"]] == [
        f"treadle rebase {run_id}",
        f"treadle land {run_id}",
        None,
    ]
    result = rebase(site, run_id)
    assert (result.code, result.json["landed"]) == (0, site.tip()), result
    assert site.project.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
def test_a_task_whose_run_is_rebased_is_done_only_once_it_passes_again(site):
    verify = ("--verify", "AC1=grep -q run shared.txt")
    site.project.treadle("task", "add", "Do it", "--id", "A-1", *verify)
    run_id = site.project.treadle("run", "A-1", "--json").json["run_id"]
    before = site.project.treadle("task", "show", "A-1", "--json").json["lane"]
    site.commit("shared.txt", "mine\n")
    rebase(site, run_id, env={"TREADLE_DIE_AT": "after_rebased"})
    assert site.project.treadle("task", "show", "A-1", "--json").json["lane"] == "in_progress"
    assert site.project.treadle("run", "--resume", run_id).code == 0
    assert site.project.treadle("task", "show", "A-1", "--json").json["lane"] == before


@pytest.mark.real
def test_what_cannot_be_rebased_is_refused_with_what_helps(site):
    run_id = passed(site)
    assert refused(site, run_id, "nothing_to_rebase")["fix"] == [f"treadle land {run_id}"]
    site.land(run_id)
    assert f"treadle undo {run_id}" in refused(site, run_id, "already_landed")["fix"]
    assert rebase(site, "20000101-000000-abcdef").code == 1


@pytest.mark.real
def test_a_run_that_waits_for_approval_is_rebased_after_that(site):
    workflow = '(repo / ".github/workflows").mkdir(parents=True)\n'
    workflow += '(repo / ".github/workflows/ci.yml").write_text("on: push")\n'
    site.project.agent("do", workflow + DO, edits=True)
    run_id = site.project.treadle(*GOAL, "--json").json["run_id"]
    site.commit("other.txt", "mine\n")
    error = refused(site, run_id, "waits_for_approval")
    assert "waits for your word about its change" in error["message"]
    (approve,) = (command for command in error["fix"] if "--approve" in command)
    assert site.project.treadle(*approve.split()[1:]).code == 0
    assert rebase(site, run_id).json["status"] == "passed"
    assert site.land(run_id).code == 0


@pytest.mark.real
def test_a_run_on_top_of_another_is_rebased_after_that_has_landed(site):
    for name, *words in (("A",), ("B", "--depends-on", "A")):
        verify = ("--verify", f"AC1=test -f {name}")
        site.project.treadle("task", "add", name, "--id", name, *verify, *words)
    site.project.agent("do", '(repo / request["goal"]).touch()\n' + DO, edits=True)
    done = site.project.treadle("run", "A", "B", "--json")
    first, second = (row["run_id"] for row in done.json["runs"])
    site.commit("other.txt", "mine\n")
    error = refused(site, second, "stacked")
    assert f"builds on run {first}, which has not landed" in error["message"]
    assert error["fix"] == [f"treadle land {first}", f"treadle rebase {second}"]
    for command in error["fix"]:
        done = site.project.treadle(*command.split()[1:])
        assert done.code == 0, done
    assert site.land(second).code == 0
    assert (site.root / "B").exists()


@pytest.mark.real
def test_a_run_in_the_project_itself_has_nothing_to_rebase(site):
    routine(site.project, "here", "#!/bin/sh\n# Here\n# workspace: project\nexit 1\n")
    site.project.settings("max_retries = 1\n")
    site.project.treadle("send", "Do it", "--routine", "here")
    site.project.treadle("process")
    error = refused(site, site.project.only_run()["run_id"], "no_workspace")
    assert "your own checkout" in error["message"]
    (command,) = error["fix"]
    assert site.project.treadle(*command.split()[1:]).code == 0


@pytest.mark.real
def test_a_run_at_work_is_refused(site):
    site.project.agent("do", "time.sleep(60); ok()")
    process = site.project.start(*GOAL)
    try:
        runs = wait_for(lambda: site.project.treadle("runs", "list", "--json").json["runs"])
        result = rebase(site, runs[0]["run_id"])
        assert (result.code, result.json["error"]["code"]) == (75, "locked"), result
        assert result.json["error"]["fix"][-1].startswith("treadle rebase --wait ")
    finally:
        process.terminate()
        process.communicate()


POINTS = ["after_intent", "after_base", "after_rebased"]
MORE = ["after_move", "before_run_file:2", "after_run_file:2", "before_transaction"]
MORE += ["after_branch", "before_end"]
POINTS += [pytest.param(point, marks=pytest.mark.real) for point in MORE]


@pytest.mark.real
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_rebase_goes_on_by_what_treadle_proposes(site, point):
    """Nothing is lost or doubled: one change on the new base, landed once."""
    run_id = passed(site)
    site.commit("shared.txt", "mine\n")
    tip = site.tip()
    killed = rebase(site, run_id, env={"TREADLE_DIE_AT": point})
    assert killed.code == -9, killed
    for _ in range(4):
        site.project.treadle("doctor", "--repair")
        shown = site.project.show(run_id)
        if shown["status"] == "passed" and shown["base_commit"] == tip:
            break
        command = site.project.treadle("why", run_id, "--json").json["next"]
        words = next(line for line in command if line.startswith("treadle")).split()[1:]
        if words[0] == "land":
            words = ["rebase", run_id]
        site.project.treadle(*words)
    assert (shown["status"], shown["base_commit"]) == ("passed", tip)
    assert site.land(run_id).code == 0
    assert (site.root / "shared.txt").read_text() == "mine\nrun\n"
    assert landings(site, run_id) == ["Make done"]
    roles = [step["role"] for step in shown["steps"] if step["status"] == "ok"]
    assert roles.count("act") == 1
    seqs = [event["seq"] for event in site.project.events(run_id)]
    assert seqs == list(range(1, len(seqs) + 1))
    git(site.root, "fsck", "--strict", "--no-dangling")


BINARY = '(repo / "data.bin").write_bytes(b"\\0run"); (repo / "done.txt").write_text("1"); ok()'
SILENT = {
    "one side deleted it": (DO, "shared.txt", None),
    "it is binary": (BINARY, "data.bin", b"\0mine"),
}


@pytest.mark.parametrize("case", SILENT)
def test_a_conflict_without_markers_is_no_more_resolved_by_itself(site, case):
    """Taking the note away is the word that it is; the path itself may stay as it lies."""
    work, name, mine = SILENT[case]
    site.commit("data.bin", "\0base")
    site.project.agent("do", work, edits=True)
    asked = ("--goal", "Make done", "--ac", "works", "--verify", "AC1=test -f done.txt")
    done = site.project.treadle("run", *asked, "--budget", "max_iterations=1", "--json")
    assert done.json["status"] == "passed", done
    run_id = done.json["run_id"]
    site.project.agent("act", 'ok("nothing")', edits=True)
    if mine is None:
        git(site.root, "rm", "-q", name)
    else:
        (site.root / name).write_bytes(mine)
    git(site.root, "commit", "-q", "-am", "Mine")
    result = rebase(site, run_id)
    assert (result.json["conflicts"], result.json["status"]) == ([name], "stopped"), result
    note = git(site.root, "show", f"treadle/{run_id}:{name}.conflict")
    assert f"git show {site.tip()[:12]}:" in note or f"has no {name}" in note
    criterion = site.project.show(run_id)["criteria"][-1]
    assert (criterion["id"], criterion["observed"]) == ("resolve", False)
    site.project.agent("act", f'(repo / "{name}.conflict").unlink(); ok("kept")', edits=True)
    more = ("--budget", "max_iterations=3")
    resumed = site.project.treadle("run", "--resume", run_id, *more, "--json")
    assert resumed.json["status"] == "passed", resumed
    assert site.land(run_id).code == 0
    assert name in site.files()
    assert not [file for file in site.files() if file.endswith(".conflict")]


def test_markers_do_not_pass_because_another_file_of_the_conflict_is_gone(site):
    site.commit("also.txt", "base\n")
    site.project.agent("do", f'(repo / "also.txt").write_text("run\\n"); {DO}', edits=True)
    run_id = passed(site, "--budget", "max_iterations=1")
    site.project.agent("act", '(repo / "also.txt").unlink(); ok()', edits=True)
    site.commit("shared.txt", "mine\n")
    site.commit("also.txt", "mine\n")
    result = rebase(site, run_id)
    assert result.json["status"] == "stopped", result
    assert site.project.show(run_id)["criteria"][-1]["observed"] is False


@pytest.mark.parametrize("mode", ["auto", "manual"])
def test_the_conflict_of_a_message_leads_to_commands_that_do_it_anew(site, mode):
    routine(
        site.project,
        "append",
        "#!/bin/sh\n# Append\ncat shared.txt > new; echo run >> new; mv new shared.txt\n",
    )
    site.project.settings(f'[land]\nprocess = "{mode}"\n')
    git(site.root, "add", ".")
    git(site.root, "commit", "-q", "-m", "Routine")
    site.project.treadle("send", "Append", "--routine", "append")
    if mode == "auto":
        site.write("shared.txt", "edited\n")
    site.project.treadle("process", "--json")
    (row,) = site.project.treadle("runs", "list", "--json").json["runs"]
    site.commit("shared.txt", "mine\n")
    fix = refused(site, row["run_id"], "merge_conflict")["fix"]
    assert [command.split()[1] for command in fix] == ["dead", "process"]
    for command in fix:
        done = site.project.treadle(*command.split()[1:])
        assert done.code == 0, done
    last = site.project.treadle("runs", "list", "--json").json["runs"][0]["run_id"]
    assert last != row["run_id"]
    if mode == "manual":
        assert site.land(last).code == 0
    assert (site.root / "shared.txt").read_text() == "mine\nrun\n"
    if mode == "auto":
        id_ = fix[0].split()[-1]
        again = site.project.treadle("dead", "retry", id_, "--json")
        assert again.json["error"]["fix"] == [f"treadle undo {last}"]
