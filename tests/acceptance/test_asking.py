"""Asking for work: without a mission, with several, before tasks are committed, past gates."""

import shlex

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC, Mission
from tests.acceptance.test_next import prompt
from tests.acceptance.test_word import refused, type_in
from tests.builder import make_repository


def test_without_a_mission_the_answer_says_how_to_begin_one(project):
    told = project.treadle("next", "--json")
    assert told.code == 0
    assert (told.json["kind"], told.json["reason_code"]) == ("blocked", "no_mission")
    assert (told.json["mission_slug"], told.json["phase"], told.json["task_id"]) == (None,) * 3
    begun = type_in(Mission(project), told.json["unblock"][0])
    assert begun.code == 0, begun
    assert project.treadle("next", "--json").json["phase"] == "specify"
    shown = project.treadle("next", "--mission", "nope", "--json")
    assert (shown.code, shown.json["error"]["code"]) == (1, "not_found")


def test_of_several_missions_one_has_to_be_named(project):
    for slug in ("one", "two"):
        Mission(project, slug).create()
    told = project.treadle("next", "--json", "--agent", "ann")
    assert told.code == 0
    assert (told.json["kind"], told.json["reason_code"]) == ("blocked", "several_missions")
    for slug, command in zip(("one", "two"), told.json["unblock"], strict=True):
        assert command == f"treadle next --json --mission {slug} --agent ann"
        assert type_in(Mission(project), command).json["mission_slug"] == slug
    assert "several" not in project.treadle("next").err
    lost = project.treadle("next", "--result", "success", "--json")
    assert (lost.code, lost.json["error"]["code"]) == (2, "mission_ambiguous")


def write_tasks(mission, *numbers: int) -> None:
    for number in numbers:
        mission.task(number).parent.mkdir(exist_ok=True)
        mission.task(number).write_text(f"---\nwork_package_id: WP{number:02}\n---\n# Part\n")


def test_tasks_that_are_not_committed_are_not_handed_out(mission):
    mission.planned()
    write_tasks(mission, 1, 2)
    for words in ((), ("--step", "tasks", "--result", "success")):
        told = mission.next(*words)
        assert (told["kind"], told["reason_code"]) == ("blocked", "tasks_uncommitted")
        assert "WP01-part.md" in told["reason"]
    for command in told["unblock"]:
        mission.project.git(*shlex.split(command)[1:])
    given = mission.next("--step", "tasks", "--result", "success")
    assert (given["kind"], given["task_id"]) == ("step", "auth.WP01")


def test_an_uncommitted_task_waits_while_others_go_on(tasked):
    write_tasks(tasked, 3)
    assert tasked.next("--agent", "ann")["task_id"] == "auth.WP01"
    told = tasked.next("--agent", "bob")
    assert (told["reason_code"], "WP03-part.md" in told["reason"]) == ("tasks_uncommitted", True)
    assert all("WP01" not in command for command in told["unblock"])


def test_no_scaffold_is_proposed_to_be_committed(mission):
    told = mission.next("--result", "success")
    assert told["reason_code"] == "spec_not_ready"
    assert told["unblock"] == ["treadle next --json --mission auth"]
    mission.spec.write_text(REAL_SPEC)
    told = mission.next("--result", "success")
    assert told["unblock"][1] == 'git commit -m "Specify auth" -- missions/auth/spec.md'


def test_nobody_is_told_to_commit_what_others_made(tasked):
    (tasked.project.root / "theirs.txt").write_text("not mine")
    error = refused(tasked, "--step", "implement:WP01", "--result", "failed")
    assert (error["code"], error["fix"]) == ("dirty_worktree", ["git status"])


def test_refusals_propose_nothing_that_is_for_others_to_do(tasked):
    treadle = tasked.project.treadle
    for lane in ("claimed", "in_progress", "for_review"):
        for to in ("approved", "done"):
            error = tasked.move("WP01", to).json["error"]
            assert len(error["fix"]) == 1
            assert not any(word in error["fix"][0] for word in ("canceled", "blocked", "release"))
        tasked.move("WP01", lane, "--as", "ann")
    assert tasked.move("WP01", "blocked", "--as", "ann").code == 0
    error = treadle("task", "claim", "WP01", "--json").json["error"]
    assert error["fix"] == ["treadle task show auth.WP01"]


NOT_WRITTEN = [
    "    | FR-001 | Users can log in |",
    "\t| FR-001 | Users can log in |",
    "| FR-001 | NEEDS CLARIFICATION: who logs in? |",
    "| FR-001 | Needs clarification |",
    "| FR-001 | e.g., users can log in |",
    "| FR-001 | System MUST e.g. let users in |",
    "| FR-001 | What must be true when this is done |",
    "- **FR-001**: what must be true when this is done.",
]


@pytest.mark.real
@pytest.mark.parametrize("row", NOT_WRITTEN)
def test_what_stands_for_a_requirement_is_none(mission, row):
    mission.commit(mission.spec, f"# Log in\n\n## Functional Requirements\n\n{row}\n")
    assert mission.next()["phase"] == "specify"


WRITTEN = [
    "- Log in:\n\n    - **FR-001**: Users can log in",
    "| FR-001 | Users can log in, e.g., by mail |",
    "| FR-001 | Users can log in NEEDS CLARIFICATION: how? |",
]


@pytest.mark.real
@pytest.mark.parametrize("row", WRITTEN)
def test_a_requirement_with_more_to_it_is_one(mission, row):
    mission.commit(mission.spec, f"# Log in\n\n## Functional Requirements\n\n{row}\n")
    assert mission.next()["phase"] == "plan"


@pytest.mark.parametrize(
    "value", ["e.g., Python 3.11 or NEEDS CLARIFICATION", "NEEDS CLARIFICATION"]
)
def test_an_example_is_no_technical_context(mission, value):
    mission.specified()
    mission.plan.write_text(REAL_PLAN.replace("C11", value))
    assert mission.setup_plan().json["phase_complete"] is False
    fields = "    Language/Version: C11\n    Storage: files\n"
    mission.plan.write_text(f"# Plan\n\n## Technical Context\n\n{fields}")
    assert mission.setup_plan().json["phase_complete"] is False


@pytest.mark.real
def test_a_dirty_submodule_is_dirty(tasked, tmp_path):
    make_repository(tmp_path / "part", {"a.txt": "1\n"})
    project = tasked.project
    project.git(
        "-c", "protocol.file.allow=always", "submodule", "add", str(tmp_path / "part"), "lib"
    )
    project.git("commit", "-q", "-m", "Add a part")
    (project.root / "lib" / "a.txt").write_text("2\n")
    error = refused(tasked, "--step", "implement:WP01", "--result", "failed")
    assert (error["code"], error["files"]) == ("dirty_worktree", ["lib"])


@pytest.mark.real
def test_a_prompt_for_a_caller_without_a_name_asks_for_one(tasked):
    assert "`--agent`" in prompt(tasked.next())
    assert "`--agent`" not in prompt(tasked.next("--agent", "ann"))
