"""A review is somebody else's, and says what there is to see."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.test_claims import with_commands
from tests.acceptance.test_next import prompt
from treadle.ids import utc
from treadle.layout import Layout
from treadle.store.store import Store


def checks(mission, task: str) -> dict[str, str]:
    """Read a task's `.checks`."""
    path = mission.project.root / ".treadle/mail/TASKS" / f"auth.{task}.checks"
    return dict(line.split(": ") for line in path.read_text().splitlines())


def done_by(mission, agent: str, task: str = "WP01") -> dict:
    """Let an agent do a task and say so."""
    mission.next("--agent", agent)
    mission.work()
    return mission.next("--agent", agent, "--step", f"implement:{task}", "--result", "success")


def test_a_review_goes_to_another_agent_that_has_asked(mission):
    mission.with_tasks("")
    mission.next("--agent", "ann")
    assert mission.next("--agent", "bob")["reason_code"] == "waiting"
    told = done_by(mission, "ann")
    assert (told["kind"], told["reason_code"]) == ("blocked", "review_waits")
    assert "bob" in told["reason"]
    assert told["unblock"] == ["treadle next --json --mission auth --agent ann"]
    given = mission.next("--agent", "bob")
    assert (given["phase"], given["task_id"]) == ("review", "auth.WP01")
    words = ("--step", "review:WP01", "--result", "success", "--json")
    own = mission.project.treadle("next", "--agent", "ann", *words)
    assert (own.code, own.json["error"]["code"]) == (3, "own_work")
    assert mission.lane("WP01") == "for_review"
    assert mission.next("--agent", "bob", *words[:-1])["phase"] == "accept"
    assert checks(mission, "WP01")["peer_reviewed"] == "true"


def test_a_review_goes_to_a_registered_agent(mission):
    mission.with_tasks("")
    assert mission.project.treadle("mail", "claim", "--as", "bob").code in (0, 1)
    assert (mission.project.root / ".treadle/mail/AGENTS/bob").is_dir()
    assert done_by(mission, "ann")["reason_code"] == "review_waits"


def test_whoever_is_alone_reviews_its_own_work_and_that_is_no_peer_review(mission):
    mission.with_tasks("")
    assert done_by(mission, "ann")["phase"] == "review"
    mission.next("--agent", "ann", "--result", "success")
    assert mission.lane("WP01") == "approved"
    assert checks(mission, "WP01")["peer_reviewed"] == "false"


def test_nobody_waits_for_an_agent_that_does_not_come_back(mission):
    mission.with_tasks("")
    mission.next("--agent", "ann")
    mission.next("--agent", "bob")
    assert done_by(mission, "ann")["reason_code"] == "review_waits"
    with Store.open(Layout(mission.project.root)) as store:
        store.see_agent("auth", "bob", utc(datetime.now(UTC) - timedelta(hours=5)))
    assert mission.next("--agent", "ann")["phase"] == "review"


def test_the_prompt_of_a_review_names_the_commits_and_what_was_seen(mission):
    with_commands(mission, "done.txt", "x")
    text = mission.task(1).read_text() + "- It is pretty\n"
    mission.commit(mission.task(1), text)
    base = mission.project.git("rev-parse", "HEAD").strip()
    mission.next("--agent", "ann")
    mission.next("--agent", "bob")
    mission.work("other.txt")
    head = mission.work("done.txt")
    mission.next("--agent", "ann", "--result", "success")
    mission.work("later.txt")
    shown = prompt(mission.next("--agent", "cyd"))
    assert f"    git log {base[:12]}..{head[:12]}\n" in shown
    assert f"`$ test -f done.txt`); passed on {head[:12]}\n" in shown
    assert "- AC2: It is pretty; no command shows it" in shown
    (log,) = re.findall(r"^    git (log \S+)$", shown, re.MULTILINE)
    subjects = mission.project.git(*log.split(), "--format=%s").splitlines()
    assert subjects == ["Work on done.txt", "Work on other.txt"]
    assert checks(mission, "WP01")["tests_passed"] == "true"


def test_a_reviewer_reads_what_was_only_claimed_and_why_nothing_changed(mission):
    with_commands(mission, "README.md")
    mission.project.treadle("trust", "--revoke")
    mission.next()
    note = ("--no-change", "--note", "somebody wrote it before")
    shown = prompt(mission.next("--result", "success", *note))
    assert "only claimed" in shown
    assert "> somebody wrote it before" in shown
    assert checks(mission, "WP01")["tests_passed"] == "false"


def test_what_a_review_found_is_shown_until_the_task_passes(mission):
    mission.with_tasks("")
    mission.next()
    mission.work()
    mission.next("--result", "success")
    back = mission.next("--result", "failed", "--note", "no tests at all")
    assert "no tests at all" in prompt(back)
    mission.work()
    again = mission.next("--result", "success")
    assert again["phase"] == "review"
    assert "no tests at all" in prompt(again)
    mission.next("--result", "failed", "--note", "tests that test nothing")
    text = prompt(mission.next())
    assert "no tests at all" in text
    assert "tests that test nothing" in text


def test_work_that_a_review_sent_back_has_to_change(mission):
    mission.with_tasks("")
    mission.next()
    mission.work()
    mission.next("--result", "success")
    mission.next("--result", "failed", "--note", "no tests at all")
    assert mission.next("--result", "success")["reason_code"] == "nothing_changed"


@pytest.mark.real
def test_the_review_of_a_run_s_work_names_its_commits(mission):
    with_commands(mission, "done")
    mission.project.settings('[agents.do]\ntype = "builtin"\nrun = ["touch", "done"]\n')
    assert mission.project.treadle("trust").code == 0
    run = mission.project.treadle("run", "WP01", "--mission", "auth", "--json").json
    mission.project.git("commit", "-qam", "Settings")
    shown = prompt(mission.next("--agent", "ann"))
    show = mission.project.show(run["run_id"])
    assert f"git log {show['base_commit'][:12]}..{show['head_commit'][:12]}" in shown
    assert "`$ test -f done`); passed on" in shown
