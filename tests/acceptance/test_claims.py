"""What agents claim of a mission's tasks is held against what can be seen of them."""

import json
import re
import shlex
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.mission import Mission
from tests.acceptance.test_next import prompt
from tests.builder import Project, wait_for

NEEDS = "\n## Acceptance Criteria\n\n- It is there: `$ test -f {}`\n"


def with_commands(mission, *files: str):
    """Make a mission whose tasks are done when these files are there."""
    mission.with_tasks(*("" for _ in files))
    for number, name in enumerate(files, 1):
        mission.task(number).write_text(mission.task(number).read_text() + NEEDS.format(name))
    mission.commit(mission.folder / "tasks")
    return mission


def carried_out(mission, command: str):
    """Run a command as it is printed."""
    words = shlex.split(command)
    assert words[0] == "treadle", command
    result = mission.project.treadle(*words[1:])
    assert result.code == 0, result
    return json.loads(result.out)


def desk(mission):
    return mission.project.treadle("desk", "--json").json["items"]


def test_six_reports_of_success_without_a_file_do_not_complete_a_mission(mission):
    mission.with_tasks("", "")
    kinds = [mission.next("--agent", "ann", "--result", "success")["kind"] for _ in range(6)]
    assert "complete" not in kinds
    assert kinds[2] == "decision_required"
    assert mission.project.treadle("mission", "status", "--json").json["phase_complete"] is False
    assert all("nothing was changed" in item["summary"] for item in desk(mission))
    assert [item["task_id"] for item in desk(mission)] == ["auth.WP01", "auth.WP02"]


@pytest.mark.parametrize("agent", [(), ("--agent", "ann")], ids=["unnamed", "named"])
def test_what_changed_nothing_is_not_done(mission, agent):
    mission.with_tasks("", "")
    mission.next(*agent)
    told = mission.next(*agent, "--result", "success")
    assert (told["kind"], told["reason_code"]) == ("blocked", "nothing_changed")
    assert "--no-change" in told["reason"]
    assert "nothing was changed" in prompt(mission.next(*agent))
    mission.project.git("commit", "-q", "--allow-empty", "-m", "Nothing")
    assert mission.next(*agent, "--result", "success")["reason_code"] == "nothing_changed"
    mission.work()
    (again,) = told["unblock"]
    carried_out(mission, again)
    assert mission.lane("WP01") == "for_review"


def test_the_work_on_one_task_does_not_speak_for_the_next(mission):
    mission.with_tasks("", "")
    mission.work()
    mission.next("--step", "implement:WP01", "--result", "success")
    told = mission.next("--step", "implement:WP02", "--result", "success")
    assert told["reason_code"] == "nothing_changed"


def test_a_mission_s_own_records_are_no_work(mission):
    mission.with_tasks("")
    mission.next("--agent", "ann")
    mission.commit(mission.task(1), mission.task(1).read_text() + "\nMore words.\n")
    told = mission.next("--agent", "ann", "--result", "success")
    assert told["reason_code"] == "nothing_changed"


def test_a_task_that_needed_no_change_says_why(mission):
    mission.with_tasks("")
    mission.next()
    words = ("--result", "success", "--no-change")
    for wrong in (words, ("--no-change",), ("--no-change", "--result", "failed", "--note", "x")):
        assert mission.project.treadle("next", *wrong).code == 2
    mission.next(*words, "--note", "it was there already")
    assert mission.lane("WP01") == "for_review"


@pytest.mark.real
def test_a_claim_that_its_command_refutes_keeps_the_step(mission):
    with_commands(mission, "done.txt")
    mission.next("--agent", "ann")
    head = mission.work("other.txt")
    told = mission.next("--agent", "ann", "--result", "success")
    assert (told["kind"], told["reason_code"]) == ("blocked", "claim_refuted")
    assert (told["phase"], told["task_id"]) == ("implement", "auth.WP01")
    assert "AC1 failed: test -f done.txt" in told["reason"]
    assert head[:9] in told["reason"]
    assert mission.lane("WP01") == "claimed"
    text = prompt(mission.next("--agent", "ann"))
    assert "AC1 failed: test -f done.txt" in text
    mission.work("done.txt")
    answer = carried_out(mission, told["unblock"][-1])
    assert (answer["phase"], mission.lane("WP01")) == ("review", "for_review")
    assert mission.project.git("status", "--porcelain") == ""


@pytest.mark.real
def test_a_refuted_claim_tells_the_last_lines_and_where_the_rest_is(mission):
    with_commands(mission, "x")
    text = mission.task(1).read_text().replace("test -f x", "seq 100; echo it broke; false")
    mission.commit(mission.task(1), text)
    mission.next()
    mission.work()
    told = mission.next("--result", "success")
    assert "it broke" in told["reason"]
    assert "\n    100\n" in told["reason"]
    assert "\n    1\n" not in told["reason"]
    (log,) = re.findall(r"all of it: (\S+)", told["reason"])
    assert "it broke" in Path(log).read_text()
    assert told["unblock"][0] == f"cat {log}"


@pytest.mark.real
def test_three_refuted_claims_are_a_matter_for_the_desk(mission):
    with_commands(mission, "done.txt")
    mission.next()
    mission.work("other.txt")
    codes = [mission.next("--result", "success")["reason_code"] for _ in range(3)]
    assert codes == ["claim_refuted", "claim_refuted", "failed_too_often"]
    (item,) = desk(mission)
    assert item["task_id"] == "auth.WP01"
    assert "test -f done.txt" in item["summary"]
    told = mission.next()
    assert told["kind"] == "decision_required"
    assert mission.next("--retry")["kind"] == "step"
    mission.work("done.txt")
    assert mission.next("--step", "implement:WP01", "--result", "success")["phase"] == "review"
    assert desk(mission) == []


@pytest.mark.real
def test_only_what_is_committed_counts_and_nothing_of_the_checkout_is_touched(mission):
    with_commands(mission, "done.txt")
    (mission.project.root / ".git/info/exclude").write_text("done.txt\n")
    (mission.project.root / "done.txt").write_text("ignored by git\n")
    mission.next()
    mission.work("other.txt")
    assert mission.next("--result", "success")["reason_code"] == "claim_refuted"
    assert (mission.project.root / "done.txt").read_text() == "ignored by git\n"
    assert mission.project.git("status", "--porcelain") == ""
    assert mission.project.git("for-each-ref").count("\n") == 1


@pytest.mark.real
def test_commands_of_a_claim_work_in_the_sandbox(mission, tmp_path):
    with_commands(mission, "x")
    outside = tmp_path / "escaped"
    text = mission.task(1).read_text().replace("test -f x", f"touch {outside}; test -f work.txt")
    mission.commit(mission.task(1), text)
    mission.next()
    mission.work()
    assert mission.next("--result", "success")["phase"] == "review"
    assert not outside.exists()


@pytest.mark.real
def test_a_claim_for_somebody_else_s_task_runs_nothing(mission):
    with_commands(mission, "done.txt")
    mission.next("--agent", "ann")
    words = ("--agent", "cyd", "--step", "implement:WP01", "--result", "success")
    result = mission.project.treadle("next", *words, "--json")
    assert (result.code, result.json["error"]["code"]) == (3, "task_held")
    assert not (mission.project.root / ".treadle/claims").exists()


@pytest.mark.real
def test_acceptance_runs_every_command_once_more(mission):
    with_commands(mission, "one", "two")
    for name in ("one", "two"):
        mission.work(name)
        mission.next("--step", f"implement:WP0{1 if name == 'one' else 2}", "--result", "success")
        mission.next("--step", f"review:WP0{1 if name == 'one' else 2}", "--result", "success")
    mission.project.git("rm", "-q", "one")
    mission.project.git("commit", "-q", "-m", "Without one")
    told = mission.next("--step", "accept", "--result", "success")
    assert (told["kind"], told["reason_code"]) == ("blocked", "claim_refuted")
    assert "AC1 of WP01 failed: test -f one" in told["reason"]
    assert "WP02" not in told["reason"]
    (back,) = [it for it in told["unblock"] if "--task" in it]
    answer = carried_out(mission, back)
    assert (answer["phase"], answer["task_id"]) == ("implement", "auth.WP01")
    assert "AC1 fails: test -f one" in prompt(answer)
    assert (mission.lane("WP01"), mission.lane("WP02")) == ("planned", "approved")
    mission.work("one")
    for step in ("implement:WP01", "review:WP01"):
        mission.next("--step", step, "--result", "success")
    assert mission.next("--step", "accept", "--result", "success")["kind"] == "complete"


@pytest.mark.real
def test_acceptance_sends_one_task_back(mission):
    mission.with_tasks("", "")
    for number in (1, 2):
        mission.work()
        mission.next("--step", f"implement:WP0{number}", "--result", "success")
        mission.next("--step", f"review:WP0{number}", "--result", "success")
    words = ("--result", "failed", "--task", "WP02", "--note", "the page is blank")
    for wrong in (("--step", "plan"), ("--step", "accept", "--task", "WP09")):
        assert mission.project.treadle("next", *words, *wrong).code == 2
    back = mission.next("--step", "accept", *words)
    assert (back["phase"], back["task_id"]) == ("implement", "auth.WP02")
    assert "the page is blank" in prompt(back)
    assert (mission.lane("WP01"), mission.lane("WP02")) == ("approved", "planned")


@pytest.mark.real
def test_commands_of_an_untrusted_repository_are_not_run(mission):
    with_commands(mission, "done.txt")
    mission.project.treadle("trust", "--revoke")
    mission.next()
    mission.work("other.txt")
    result = mission.project.treadle("next", "--result", "success", "--json")
    assert result.json["phase"] == "review"
    assert "treadle trust" in result.err
    mission.next("--step", "review:WP01", "--result", "success")
    told = mission.next("--step", "accept", "--result", "success")
    assert (told["kind"], told["reason_code"]) == ("blocked", "untrusted")
    assert told["unblock"][0] == "treadle trust"
    assert mission.project.treadle("trust").code == 0
    assert carried_out(mission, told["unblock"][-1])["reason_code"] == "claim_refuted"


@pytest.mark.real
@pytest.mark.parametrize("heading", ["Success Criteria", "Objectives & Success Criteria"])
def test_criteria_stand_under_other_headings_too(mission, heading):
    with_commands(mission, "done.txt")
    mission.commit(
        mission.task(1), mission.task(1).read_text().replace("Acceptance Criteria", heading)
    )
    assert "- AC1: It is there (checked by `$ test -f done.txt`)" in prompt(mission.next())
    mission.work()
    assert mission.next("--result", "success")["reason_code"] == "claim_refuted"


PLANS = {
    "line": ("- **WP01**: Users stay logged in (files: src/)\n- WP02: Other\n", "stay logged in"),
    "below": ("- WP01: Log in\n  - It works: `$ test -f done.txt`\n- WP02: Other\n", "It works"),
    "heading": ("### WP01: Log in\n\n- It works: `$ true`\n\n### WP02: Other\n", "It works"),
}


@pytest.mark.real
@pytest.mark.parametrize(("plan", "told"), PLANS.values(), ids=PLANS)
def test_a_task_without_criteria_is_done_when_the_plan_says_so(mission, plan, told):
    mission.with_tasks("")
    mission.commit(mission.plan, mission.plan.read_text() + f"\n## Tasks\n\n{plan}")
    criteria = prompt(mission.next()).split("## Criteria")[1].split("##")[0]
    assert told in criteria
    assert "Other" not in criteria
    assert "files:" not in criteria
    mission.work()
    refuted = mission.next("--result", "success")["reason_code"]
    assert refuted == ("claim_refuted" if "test -f" in plan else None)


def lease_of(mission, task: str) -> timedelta:
    row = mission.project.treadle("task", "show", task, "--json").json
    return datetime.fromisoformat(row["lease_until"]) - datetime.now(UTC)


@pytest.mark.real
def test_what_a_report_hands_out_is_lent_for_half_an_hour(mission):
    mission.with_tasks("", "")
    mission.next("--agent", "ann")
    assert timedelta(hours=3.5) < lease_of(mission, "WP01") <= timedelta(hours=4)
    mission.work()
    answer = mission.next("--agent", "ann", "--result", "success")
    assert answer["task_id"] == "auth.WP02"
    assert timedelta(minutes=25) < lease_of(mission, "WP02") <= timedelta(minutes=30)
    mission.next("--agent", "ann")
    assert timedelta(hours=3.5) < lease_of(mission, "WP02") <= timedelta(hours=4)


@pytest.mark.real
def test_a_report_lends_no_longer_than_asking(mission):
    mission.with_tasks("", "")
    mission.project.settings("[task]\nlease = 600\n")
    mission.project.git("commit", "-q", "-a", "-m", "Lend for ten minutes")
    mission.next("--agent", "ann")
    mission.work()
    mission.next("--agent", "ann", "--result", "success")
    assert lease_of(mission, "WP02") <= timedelta(minutes=10)


@pytest.mark.real
def test_what_was_merged_for_a_task_is_not_its_work(mission):
    mission.with_tasks("", "dependencies: [WP01]\n")
    take = ("--agent", "ann", "--worktree")
    for number in (1, 2):
        step = mission.next(*take)
        assert step["task_id"] == f"auth.WP0{number}"
        place = Mission(Project(Path(step["workspace_path"]), mission.project.folder))
        told = place.next("--agent", "ann", "--result", "success")
        assert told["reason_code"] == "nothing_changed"
        base = place.project.git("rev-parse", "HEAD").strip()
        head = place.work(f"{number}.txt")
        shown = prompt(carried_out(place, told["unblock"][0]))
        assert f"git log {base[:12]}..{head[:12]}" in shown
        mission.next("--agent", "ann", "--step", f"review:WP0{number}", "--result", "success")
        mission.project.git("merge", "-q", f"treadle/auth/WP0{number}")
        mission.next("--agent", "ann", "--step", "accept", "--result", "success")
    assert mission.next("--agent", "ann")["kind"] == "complete"


@pytest.mark.real
@pytest.mark.parametrize("point", ["verify_observed", "claim_observed"])
def test_a_kill_while_a_claim_is_looked_at_changes_nothing(mission, point):
    with_commands(mission, "done.txt")
    mission.next("--agent", "ann")
    mission.work("done.txt")
    words = ("next", "--json", "--agent", "ann", "--result", "success")
    killed = mission.project.treadle(*words, env={"TREADLE_DIE_AT": point})
    assert (killed.code, mission.lane("WP01")) == (-9, "claimed")
    assert mission.project.git("status", "--porcelain") == ""
    assert mission.next(*words[2:])["phase"] == "review"
    assert mission.lane("WP01") == "for_review"


@pytest.mark.real
def test_an_interrupted_look_tells_how_to_report_again(mission):
    with_commands(mission, "x")
    text = mission.task(1).read_text().replace("test -f x", "echo begun >&2; sleep 600")
    mission.commit(mission.task(1), text)
    mission.next("--agent", "ann")
    mission.work()
    words = ("next", "--json", "--agent", "ann", "--step", "implement:WP01", "--result", "success")
    child = mission.project.start(*words)
    log = mission.project.root / ".treadle/claims/claim-auth.WP01/live/001.txt"
    wait_for(lambda: log.exists() and "begun" in log.read_text())
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    told = json.loads(out)["error"]
    assert (child.returncode, told["code"]) == (130, "interrupted")
    assert told["fix"] == [f"treadle next --json --mission auth --agent ann {' '.join(words[4:])}"]
    assert mission.lane("WP01") == "claimed"


@pytest.mark.real
def test_tasks_that_were_done_by_hand_are_seen_before_a_mission_is_complete(mission):
    with_commands(mission, "done.txt")
    for lane in ("claimed", "in_progress", "for_review", "in_review", "approved", "done"):
        assert mission.move("WP01", lane).code == 0
    status = mission.project.treadle("mission", "status", "--json").json
    assert "wait to be accepted" in status["blocked_reason"]
    step = mission.next()
    assert (step["kind"], step["phase"]) == ("step", "accept")
    assert "auth.WP01" in prompt(step)
    told = mission.next("--result", "success")
    assert told["reason_code"] == "claim_refuted"
    assert not [command for command in told["unblock"] if "--task" in command]
    mission.work("done.txt")
    assert carried_out(mission, told["unblock"][-1])["kind"] == "complete"
    assert mission.next()["kind"] == "complete"
