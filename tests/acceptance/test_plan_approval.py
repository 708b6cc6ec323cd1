"""A plan waits for a person who reads it, edits it, or wants another one."""

import shlex

import pytest

from tests.acceptance.test_approval import asked, commands, desk, literal, resume

PLAN = 'write("plan.md", f"1. turn {request[\'step\'][\'index\']}\\n"); ok("a plan")'
DO = "(repo / 'done.txt').write_text(request['context']['notes']); ok()"


def planned(project, *words):
    """Run until the plan waits."""
    project.agent("plan", PLAN)
    project.agent("do", DO, edits=True)
    run = project.run_json("--verify", "AC1=test -f done.txt", *words)
    assert (run["code"], run["status"], run["reason_code"]) == (3, "stopped", "plan_waits"), run
    return run


def plan_file(project, run):
    return project.run_dir(run["run_id"]) / "plan.md"


def roles(project, run):
    return [(role, agent) for role, agent, _ in asked(project, run["run_id"])]


def test_a_plan_waits_on_the_desk_and_is_approved_as_printed(project):
    run = planned(project, "--approve", "plan")
    assert roles(project, run) == [("plan", "plan")]
    (item,) = desk(project)
    assert item["kind"] == "approval"
    assert "plan.md" in item["summary"]
    look = next(line for line in item["fix"] if line.startswith("cat "))
    assert (project.root / shlex.split(look)[1]).read_text() == "1. turn 1\n"
    assert "1. turn 1" in project.treadle("desk", "show", item["item_id"]).out
    done = literal(project, commands(item)["approve"])
    assert done.code == 0, done.err
    taken = [("plan", "plan"), ("plan", "human"), ("do", "do"), ("check", "builtin")]
    assert roles(project, run) == taken
    assert project.event(run["run_id"], "plan_approved")["data"] == {"edited": False}
    assert desk(project) == []


def test_the_configuration_can_ask_for_every_plan(project):
    project.settings('approve = ["plan"]\n')
    run = planned(project)
    assert resume(project, run["run_id"], "--approve", "plan").json["status"] == "passed"


def test_what_a_person_wrote_is_what_do_is_given(project):
    run = planned(project, "--approve", "plan")
    plan_file(project, run).write_text("1. use the old parser\n")
    assert resume(project, run["run_id"], "--approve", "plan").json["status"] == "passed"
    assert "1. use the old parser" in project.git("show", f"{run['branch']}:done.txt")
    kept = project.step_dir(run["run_id"], "002-plan") / "plan.md"
    assert kept.read_text() == "1. use the old parser\n"
    assert project.event(run["run_id"], "plan_approved")["data"] == {"edited": True}


@pytest.mark.real
def test_a_rejected_plan_is_made_again_with_the_words(project):
    run = planned(project, "--approve", "plan")
    seen = 'write("seen.md", request["context"]["notes"]); '
    project.agent("plan", seen + PLAN)
    again = resume(project, run["run_id"], "--reject", "too many steps")
    assert (again.code, again.json["reason_code"]) == (3, "plan_waits")
    assert roles(project, run) == [("plan", "plan"), ("plan", "plan")]
    notes = (project.step_dir(run["run_id"], "002-plan") / "seen.md").read_text()
    assert "too many steps" in notes
    assert "Not accepted: the last plan" in notes
    assert plan_file(project, run).read_text() == "1. turn 2\n"
    assert resume(project, run["run_id"], "--approve", "plan").json["status"] == "passed"


def test_words_on_a_rejected_plan_do_not_reach_whoever_has_the_next_one(project):
    run = planned(project, "--approve", "plan")
    assert resume(project, run["run_id"], "--reject", "too many steps").code == 3
    assert project.treadle("comment", run["run_id"], "mind the tabs").code == 0
    assert resume(project, run["run_id"], "--approve", "plan").json["status"] == "passed"
    told = project.git("show", f"{run['branch']}:done.txt")
    assert ("too many steps" in told, "mind the tabs" in told) == (False, True)


@pytest.mark.real
def test_later_plans_do_not_wait(project):
    project.good_agents()
    run = project.run_json("--approve", "plan")
    done = resume(project, run["run_id"], "--approve", "plan")
    assert done.json["status"] == "passed"
    assert roles(project, run).count(("plan", "plan")) == 2


@pytest.mark.real
def test_approving_a_plan_twice_is_told(project):
    run = planned(project, "--approve", "plan")
    assert resume(project, run["run_id"], "--approve", "plan").code == 0
    again = resume(project, run["run_id"], "--approve", "plan")
    assert (again.code, again.json["error"]["code"]) == (1, "nothing_to_approve")


@pytest.mark.real
def test_a_plan_that_nobody_makes_holds_nothing_up(project):
    project.agent("do", DO, edits=True)
    run = project.run_json("--verify", "AC1=test -f done.txt", "--approve", "plan")
    assert run["status"] == "passed"


@pytest.mark.real
def test_a_plan_without_a_file_is_its_summary(project):
    project.agent("plan", 'ok("look first")')
    project.agent("do", DO, edits=True)
    run = project.run_json("--verify", "AC1=test -f done.txt", "--approve", "plan")
    assert plan_file(project, run).read_text() == "look first\n"
    assert resume(project, run["run_id"], "--approve", "plan").json["status"] == "passed"


@pytest.mark.real
@pytest.mark.parametrize(
    ("text", "word"), [('approve = ["do"]\n', "approve"), ("approve = 1\n", "approve")]
)
def test_only_a_plan_can_be_asked_for(project, text, word):
    project.settings(text)
    told = project.treadle("run", "--goal", "x")
    assert told.code == 1
    assert word in told.err


@pytest.mark.real
@pytest.mark.parametrize(
    "point", ["before_approval", "before_rename:1", "after_rename:1", "after_transaction:1"]
)
def test_an_approved_plan_survives_a_kill(project, point):
    run = planned(project, "--approve", "plan")
    plan_file(project, run).write_text("1. mine\n")
    run_id = run["run_id"]
    killed = resume(project, run_id, "--approve", "plan", env={"TREADLE_DIE_AT": point})
    assert killed.code == -9
    project.treadle("runs", "prune", "--older-than", "9999")  # whatever comes next recovers
    waits = project.show(run_id)["reason_code"] == "plan_waits"
    assert bool(desk(project)) == waits
    done = resume(project, run_id, *(("--approve", "plan") if waits else ()))
    assert done.json["status"] == "passed", done.out
    assert roles(project, run)[:3] == [("plan", "plan"), ("plan", "human"), ("do", "do")]
    assert "1. mine" in project.git("show", f"{run['branch']}:done.txt")
