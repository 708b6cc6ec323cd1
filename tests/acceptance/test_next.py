"""`next` says what to do now, takes reports, and touches nothing else."""

import json
import os
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC, Mission
from tests.acceptance.test_gates import PLAN_SENTENCE, SPEC_SENTENCE


def prompt(decision) -> str:
    """Return a step's prompt, read as any consumer does."""
    assert decision["kind"] == "step", decision
    found = decision.get("prompt_file") or decision.get("prompt_path")
    assert found is not None
    assert found != ""
    assert Path(found).is_file()
    assert Path(found).is_absolute()
    return Path(found).read_text()


def report_of(text: str, result: str) -> list[str]:
    """Return the words of the command a prompt gives for a result."""
    (line,) = re.findall(rf"^ +treadle (next .*--result {result})", text, re.MULTILINE)
    return line.split()


def state_of(project) -> tuple[str, str, str, set[Path]]:
    own = {path for path in (project.root / ".treadle").rglob("*") if path.is_file()}
    return (
        project.git("status", "--porcelain", "-uall"),
        project.git("rev-parse", "HEAD"),
        project.git("for-each-ref"),
        {path for path in own if ".treadle/prompts" not in str(path)},
    )


def test_a_mission_from_its_spec_to_its_end(mission):
    """Every prompt holds what is needed to do the step and to report it."""
    phases = []
    decision = mission.next()
    while decision["kind"] == "step":
        text, phase = prompt(decision), decision["phase"]
        phases.append((phase, decision["task_id"]))
        if phase == "specify":
            assert "missions/auth/spec.md" in text
            assert "## Commit Boundary" in text
            mission.specified()
        elif phase == "plan":
            assert "## Commit Boundary" in text
            tasks = "- WP01: Store (files: src/)\n  - It is there: `$ true`\n"
            plan = f"\n## Tasks\n\n{tasks}- Page (depends on: WP01)\n"
            mission.plan.write_text(REAL_PLAN + plan)
            assert mission.setup_plan().code == 0
        elif phase == "tasks":
            assert mission.project.treadle("mission", "tasks").code == 0
            mission.commit(mission.folder / "tasks")
        elif phase == "implement":
            assert "## Criteria" in text
            mission.work()
        assert "Report back" in text
        words = report_of(text, "success")
        decision = mission.project.treadle(*words).json
    assert phases == [
        ("specify", None),
        ("plan", None),
        ("tasks", None),
        ("implement", "auth.WP01"),
        ("review", "auth.WP01"),
        ("accept", None),
        ("implement", "auth.WP02"),
        ("review", "auth.WP02"),
        ("accept", None),
    ]
    assert (decision["kind"], decision["reason_code"]) == ("complete", "mission_complete")
    assert mission.project.git("status", "--porcelain") == ""
    status = mission.project.treadle("mission", "status", "--json").json
    assert (status["phase"], status["phase_complete"]) == ("accept", True)
    assert (status["blocked_reason"], status["tasks"]) == (None, {"done": 2})


def test_asking_writes_nothing_but_the_prompt(mission):
    before = state_of(mission.project)
    first, second = mission.next(), mission.next()
    assert first == second
    assert state_of(mission.project) == before
    (only,) = (mission.project.root / ".treadle" / "prompts").iterdir()
    assert str(only) == first["prompt_file"]


def test_query_tells_without_a_prompt(mission):
    mission.with_tasks("", "dependencies: [WP01]\n")
    found = mission.next("--query")
    assert (found["kind"], found["prompt_file"], found["phase"]) == ("query", None, "implement")
    assert found["reason"] == "auth: implement:WP01; tasks: 2 planned"
    assert found["unblock"] == ["treadle next --json --mission auth"]
    assert not (mission.project.root / ".treadle" / "prompts").exists()


def test_success_before_the_gate_is_open_advances_nothing(mission):
    mission.next()
    blocked = mission.next("--result", "success")
    assert (blocked["kind"], blocked["reason"]) == ("blocked", SPEC_SENTENCE)
    assert (blocked["phase"], blocked["prompt_file"]) == ("specify", None)
    assert blocked["unblock"] == ["treadle next --json --mission auth"]
    assert mission.next()["phase"] == "specify"
    mission.specified()
    assert mission.next("--result", "success")["phase"] == "plan"
    blocked = mission.next("--result", "success")
    assert (blocked["kind"], blocked["reason"]) == ("blocked", PLAN_SENTENCE)
    mission.plan.write_text(REAL_PLAN)
    mission.setup_plan()
    assert mission.next("--result", "success")["phase"] == "tasks"
    assert mission.next("--result", "success")["reason_code"] == "no_tasks"


def test_a_report_changes_the_lane_and_no_file(mission):
    mission.with_tasks("")
    assert mission.next()["task_id"] == "auth.WP01"
    mission.work()
    before = state_of(mission.project)[:3]
    answer = mission.next("--result", "success", "--note", "done")
    assert (answer["phase"], answer["task_id"]) == ("review", "auth.WP01")
    assert mission.lane("WP01") == "for_review"
    assert state_of(mission.project)[:3] == before


@pytest.mark.parametrize("result", ["success", "failed", "blocked"])
def test_a_report_on_a_step_that_is_over_is_refused(mission, result):
    mission.with_tasks("")
    mission.work()
    words = ("--step", "implement:WP01", "--result")
    mission.next(*words, "success")
    late = mission.project.treadle("next", *words, result, "--json")
    assert (late.code, late.json["error"]["code"]) == (3, "step_over")
    assert mission.lane("WP01") == "for_review"


def test_three_failures_need_a_decision_and_retry_clears_them(mission):
    mission.with_tasks("")
    mission.next()
    for note in ("first", "second"):
        again = mission.next("--result", "failed", "--note", note)
        assert (again["kind"], again["task_id"]) == ("step", "auth.WP01")
    assert "failed 2 times" in prompt(again)
    assert "second" in prompt(again)
    third = mission.next("--result", "failed", "--note", "third")
    assert (third["kind"], third["reason_code"]) == ("decision_required", "failed_too_often")
    assert "third" in third["reason"]
    assert mission.next() == third
    retry = third["unblock"][-1].split()[1:]
    assert mission.project.treadle(*retry).json["kind"] == "step"
    assert "This failed" not in prompt(mission.next())


def test_what_failed_too_often_is_canceled_by_the_command_as_it_stands(mission):
    mission.with_tasks("")
    mission.next()
    for _ in range(3):
        mission.next("--result", "failed", "--note", "no")
    (item,) = mission.project.treadle("desk", "--json").json["items"]
    cancel = item["fix"][1]
    assert cancel.endswith('--to canceled --reason "failed 3 times"')
    assert mission.project.treadle(*shlex.split(cancel)[1:]).code == 0


def test_the_phases_before_tasks_count_failures_too(mission):
    mission.next()
    kinds = [mission.next("--result", "failed")["kind"] for _ in range(3)]
    assert kinds == ["step", "step", "decision_required"]
    mission.specified()
    assert mission.next()["phase"] == "plan"


def test_a_block_is_never_permanent(mission):
    mission.with_tasks("")
    mission.next()
    blocked = mission.next("--result", "blocked", "--note", "no password")
    assert (blocked["kind"], blocked["reason_code"]) == ("blocked", "reported_blocked")
    assert "no password" in blocked["reason"]
    assert (mission.lane("WP01"), mission.next()["kind"]) == ("blocked", "blocked")
    mission.work()
    assert mission.next("--result", "success")["kind"] == "step"
    assert mission.lane("WP01") == "for_review"


def test_a_blocked_phase_clears_as_well(mission):
    mission.next()
    assert mission.next("--result", "blocked", "--note", "ask Ann")["kind"] == "blocked"
    assert mission.next()["kind"] == "blocked"
    assert mission.project.treadle("answer", "Q-1", "retry").code == 0
    assert mission.next()["kind"] == "step"


def test_other_work_goes_on_beside_a_block(mission):
    mission.with_tasks("", "")
    mission.next()
    assert mission.next("--result", "blocked")["kind"] == "blocked"
    assert mission.next()["task_id"] == "auth.WP02"


def test_a_review_sends_work_back_with_its_reason(mission):
    mission.with_tasks("")
    mission.next()
    mission.work()
    mission.next("--result", "success")
    back = mission.next("--result", "failed", "--note", "no tests")
    assert (back["phase"], back["task_id"], mission.lane("WP01")) == (
        "implement",
        "auth.WP01",
        "planned",
    )
    assert "no tests" in prompt(back)


def test_agents_get_different_tasks(mission):
    mission.with_tasks("", "", "dependencies: [WP01, WP02]\n")
    treadle = mission.project.treadle
    assert treadle("task", "claim", "WP01", "--as", "ann").code == 0
    assert mission.next("--agent", "bob")["task_id"] == "auth.WP02"
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP01"
    waiting = mission.next("--agent", "cyd")
    assert (waiting["kind"], waiting["reason_code"]) == ("blocked", "waiting")
    assert "held by ann" in waiting["reason"]
    stolen = treadle("next", "--agent", "cyd", "--step", "implement:WP01", "--result", "success")
    assert stolen.code == 3
    assert mission.lane("WP01") == "claimed"


def test_an_agent_with_a_name_is_lent_its_task(mission):
    mission.with_tasks("", "")
    assert mission.next()["task_id"] == "auth.WP01"
    assert mission.lane("WP01") == "planned"
    given = mission.next("--agent", "ann")
    assert "task claim" not in prompt(given)
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP01"
    row = mission.project.treadle("task", "show", "WP01", "--json").json
    lease = datetime.fromisoformat(row["lease_until"]) - datetime.now(UTC)
    assert (row["lane"], row["owner"]) == ("claimed", "ann")
    assert timedelta(hours=3.5) < lease <= timedelta(hours=4)


def test_the_task_that_answers_a_report_is_lent_as_well(mission):
    mission.with_tasks("", "")
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP01"
    mission.work()
    answer = mission.next("--agent", "ann", "--result", "success")
    assert "task claim" not in prompt(answer)
    assert mission.next("--agent", "bob")["task_id"] != answer["task_id"] == "auth.WP02"


def test_a_lent_task_can_be_taken_when_its_lease_is_over(mission):
    mission.with_tasks("")
    mission.project.settings("[task]\nlease = 1\n")
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP01"
    mission.project.settings("[task]\nlease = 600\n")
    mission.project.git("commit", "-q", "-a", "-m", "Lend for longer")
    while mission.next("--agent", "bob")["task_id"] != "auth.WP01":
        pass
    words = ("--step", "implement:WP01", "--result", "success")
    late = mission.project.treadle("next", "--agent", "ann", *words)
    assert late.code == 3
    assert mission.project.treadle("task", "show", "WP01", "--json").json["owner"] == "bob"


def test_what_failed_three_times_waits_on_the_desk_until_it_is_tried_again(mission):
    mission.with_tasks("")

    def desk():
        return mission.project.treadle("desk", "--json").json["items"]

    for _ in range(3):
        assert desk() == []
        mission.next("--result", "failed", "--note", "no network")
    (item,) = desk()
    assert (item["kind"], item["task_id"]) == ("question", "auth.WP01")
    assert "failed 3 times" in item["summary"]
    assert item["fix"][0] == "treadle task show auth.WP01"
    mission.next("--retry")
    assert desk() == []


def test_a_phase_that_succeeds_leaves_the_questions_of_other_steps_open(mission):
    mission.with_tasks("")
    for _ in range(3):
        mission.next("--step", "implement:WP01", "--result", "failed", "--note", "no network")
    mission.next("--step", "tasks", "--result", "success")
    (item,) = mission.project.treadle("desk", "--json").json["items"]
    assert (item["task_id"], item["subject"]) == ("auth.WP01", {"kind": "mission", "id": "auth"})


def test_reports_are_shown_in_the_configured_mail_root(mission):
    mission.with_tasks("")
    mission.project.settings('[mail]\nroot = ".treadle/post"\n')
    mission.project.git("commit", "-q", "-a", "-m", "Letters elsewhere")
    mission.work()
    mission.next("--result", "success")
    status = mission.project.root / ".treadle" / "post" / "TASKS" / "auth.WP01.status"
    assert "in_progress" in status.read_text()


def test_a_task_that_is_blocked_is_told_with_its_reason(mission):
    mission.with_tasks("")
    mission.move("WP01", "blocked", "--reason", "run 1 failed")
    found = mission.next()
    assert (found["kind"], found["reason"]) == ("blocked", "auth.WP01 is blocked: run 1 failed")
    assert found["unblock"][0].endswith("--retry --step implement:WP01")
    assert mission.project.treadle(*found["unblock"][0].split()[1:]).json["kind"] == "step"


def test_an_escalation_needs_a_decision(mission):
    mission.with_tasks("")
    words = ("--from", "ann", "--to", "human", "--intent", "escalate", "--task", "auth.WP01")
    assert mission.project.treadle("task", "claim", "WP01", "--as", "ann").code == 0
    sent = mission.project.treadle("mail", "send", *words, "--summary", "Which key?")
    assert sent.code == 0, sent
    found = mission.next()
    assert (found["kind"], found["reason_code"]) == ("decision_required", "question_open")
    assert "Which key?" in found["reason"]
    assert any("answer" in command for command in found["unblock"])


def test_dirty_files_stop_reports_but_not_questions(mission):
    mission.with_tasks("")
    (mission.project.root / "README.md").write_text("mine")
    assert mission.next()["kind"] == "step"
    refused = mission.project.treadle("next", "--result", "success", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "dirty_worktree")
    assert refused.json["error"]["files"] == ["README.md"]
    assert mission.lane("WP01") == "planned"


def test_a_circle_is_a_reason_to_wait(mission):
    mission.with_tasks("dependencies: [WP02]\n", "dependencies: [WP01]\n", "")
    assert mission.next()["task_id"] == "auth.WP03"
    mission.move("WP03", "canceled")
    found = mission.next()
    assert (found["kind"], found["reason_code"]) == ("blocked", "task_cycle")
    assert "WP01 → WP02 → WP01" in found["reason"]
    for words in (("task", "claim", "WP01"), ("mission", "tasks")):
        refused = mission.project.treadle(*words, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (1, "task_cycle")


@pytest.mark.parametrize("obstacle", ["file", "pipe"])
def test_a_prompt_that_cannot_be_written_is_no_step(mission, obstacle):
    prompts = mission.project.root / ".treadle" / "prompts"
    if obstacle == "file":
        prompts.write_text("in the way")
    else:
        os.mkfifo(prompts)
    found = mission.next()
    assert (found["kind"], found["prompt_file"]) == ("blocked", None)
    assert found["reason"] == found["reason_code"] == "prompt_file_not_resolvable"
    assert found["unblock"]


SENSELESS = [
    ("--result", "success", "--retry"),
    ("--query", "--retry"),
    ("--note", "x"),
    ("--step", "plan"),
    ("--result", "done"),
    ("--result", "success", "--step", "dance"),
    ("--result", "success", "--step", "implement:WP77"),
    ("--agent", "not a name"),
]


def test_senseless_words_are_refused(mission):
    for words in SENSELESS:
        result = mission.project.treadle("next", *words, "--json")
        word = "agent_id_invalid" if "--agent" in words else "usage"
        assert (result.code, json.loads(result.out)["error"]["code"]) == (2, word), words


def test_spec_kittys_missions_are_answered_as_they_are(project):
    folder = project.root / "kitty-specs" / "001-log-in"
    (folder / "tasks").mkdir(parents=True)
    (folder / "meta.json").write_text('{"mission_number": "001", "friendly_name": "Log in"}')
    (folder / "spec.md").write_text(REAL_SPEC)
    (folder / "plan.md").write_text(REAL_PLAN)
    head = 'work_package_id: "WP0{}"\ntitle: "Part"\nlane: "{}"\ndependencies: {}\n'
    head += 'history:\n- at: "x"\n  by: "y"\n'
    for number, lane, needs in ((1, "done", "[]"), (2, "planned", '["WP01"]')):
        text = f"---\n{head.format(number, lane, needs)}---\n# Part {number}\n"
        (folder / "tasks" / f"WP0{number}-part.md").write_text(text)
    project.git("add", ".")
    project.git("commit", "-q", "-m", "From spec-kitty")
    (listed,) = project.treadle("mission", "list", "--json").json["missions"]
    assert (listed["mission_slug"], listed["title"]) == ("001-log-in", "Log in")
    assert (listed["phase"], listed["tasks"]) == ("implement", {"planned": 1, "done": 1})
    mission = Mission(project, "001-log-in", "kitty-specs")
    assert mission.setup_plan().json["phase_complete"]
    assert mission.next()["task_id"] == "001-log-in.WP02"
    mission.work()
    assert mission.next("--result", "success")["phase"] == "review"
    assert mission.lane("WP02") == "for_review"
    made = project.treadle("mission", "create", "second", "--json").json
    assert made["feature_dir"] == str(project.root / "kitty-specs" / "second")
    assert project.git("status", "--porcelain").split() == ["??", "kitty-specs/second/spec.md"]


def test_a_mission_task_runs_like_any_other(mission):
    mission.with_tasks("")
    text = (
        mission.task(1).read_text() + "\n## Acceptance Criteria\n\n- It works: `$ test -f done`\n"
    )
    mission.commit(mission.task(1), text)
    mission.project.settings('[agents.do]\ntype = "builtin"\nrun = ["touch", "done"]\n')
    assert mission.project.treadle("trust").code == 0
    result = mission.project.treadle("run", "WP01", "--mission", "auth", "--json")
    assert (result.code, result.json["task_id"]) == (0, "auth.WP01"), result
    assert (result.json["verdict"], mission.lane("auth.WP01")) == ("PASS", "for_review")
