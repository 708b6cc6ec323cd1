"""Reports change everything or nothing, and a question costs one look."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC
from tests.builder import git
from tests.missions.conftest import write_task
from treadle.layout import Layout
from treadle.missions import gates, state, taskfile
from treadle.missions import mission as missions
from treadle.missions import next as next_step
from treadle.missions.report import Report, lend, report, retry
from treadle.missions.state import NextStep
from treadle.project import setup
from treadle.store.store import Store, Transaction
from treadle.store.tasks import MissionStepRow, WorkRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(hours=4)
NEVER = pytest.fail  # nothing is accepted here


class Killed(BaseException):
    """A kill, as far as anything that handles errors can tell."""


@pytest.fixture
def store(repo, mission):
    setup.init(repo, os.environ)
    mission.files.spec.write_text(REAL_SPEC)
    mission.files.plan.write_text(REAL_PLAN)
    write_task(mission, "WP01-a.md", "", "# A\n")
    write_task(mission, "WP02-b.md", "", "# B\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "All")
    with Store.open(Layout(repo)) as found:
        yield found


def stands(repo, store, agent="ann"):
    layout = Layout(repo)
    return state.read(layout, store, missions.find(layout, "auth"), NOW, agent)


def test_a_report_changes_lane_desk_and_story_together(repo, store, monkeypatch):
    report(
        stands(repo, store), store, Report("success", None, "implement:WP01"), LEASE, believe, NEVER
    )
    store.report_step(MissionStepRow("auth", "WP01", 2, False, None, "ann", "now"))
    failed = Report("failed", "no", "review:WP01")
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "ask", die)
        with pytest.raises(Killed):
            report(stands(repo, store), store, failed, LEASE, believe, NEVER)
    assert store.task("auth.WP01").lane == "for_review"
    assert [row.failures for row in store.mission_steps("auth")] == [2]
    report(stands(repo, store), store, failed, LEASE, believe, NEVER)
    assert (store.task("auth.WP01").lane, len(store.questions())) == ("planned", 1)


def believe(found, store, at, word):
    """Take a success as if it had been seen."""
    return WorkRow("auth", at.key, "base", "head", (), None, "now")


def die(*_):
    raise Killed


def test_what_failed_too_often_is_asked_and_a_retry_closes_that(repo, store):
    for _ in range(3):
        halt = report(
            stands(repo, store),
            store,
            Report("failed", "no", "implement:WP01"),
            LEASE,
            believe,
            NEVER,
        )
    assert (halt.kind, halt.reason_code) == ("decision_required", "failed_too_often")
    assert [item.task_id for item in store.questions()] == ["auth.WP01"]
    assert isinstance(retry(stands(repo, store), store, LEASE), NextStep)
    (row,) = store.mission_steps("auth")
    assert (store.questions(), row.failures, [it.note for it in row.tries]) == ([], 0, ["no"] * 3)


def test_a_named_agent_is_lent_its_task_with_one_look_and_one_prompt(repo, store, monkeypatch):
    looks, prompts = [], []
    look, write = gates.read_head, next_step.write_prompt
    monkeypatch.setattr(gates, "read_head", lambda them: looks.append(1) or look(them))
    monkeypatch.setattr(next_step, "write_prompt", lambda *it: prompts.append(1) or write(*it))
    found = lend(stands(repo, store), store, LEASE)
    assert (found.where.task_id, store.task("auth.WP01").owner) == ("auth.WP01", "ann")
    assert (len(looks), len(prompts)) == (1, 1)
    assert "treadle task claim" not in found.prompt_file.read_text()
    assert lend(stands(repo, store, "ben"), store, LEASE).where.task_id == "auth.WP02"


def test_only_what_decides_is_looked_at(repo, store, monkeypatch):
    asked, read = [], []
    holds, names = gates.Committed.holds, taskfile.names_requirements
    monkeypatch.setattr(gates.Committed, "holds", lambda *it: asked.append(it[1]) or holds(*it))
    monkeypatch.setattr(taskfile, "names_requirements", lambda *it: read.append(1) or names(*it))
    assert state.current(stands(repo, store)).task_id == "auth.WP01"
    assert ([name[:4] for name in asked], read) == (["WP01"], [1])
    lend(stands(repo, store), store, LEASE)
    read.clear()
    assert state.current(stands(repo, store)).task_id == "auth.WP01"
    assert read == []  # a task is begun: which requirements have none no longer matters


def test_old_prompts_are_deleted_when_a_new_one_is_written(repo, store):
    first = lend(stands(repo, store), store, LEASE).prompt_file
    week = NOW.timestamp() - 8 * 24 * 3600
    os.utime(first, (week, week))
    second = lend(stands(repo, store, "ben"), store, LEASE).prompt_file
    assert (first.exists(), second.exists()) == (False, True)


def test_the_first_of_many_tasks_is_found_by_opening_one_file(repo, store, mission, monkeypatch):
    for number in range(3, 60):
        write_task(mission, f"WP{number:02}-more.md", "", "# More\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "More")
    opened, read = [], taskfile.read_task
    monkeypatch.setattr(taskfile, "read_task", lambda *it: opened.append(it[1]) or read(*it))
    assert state.current(stands(repo, store)).name == "implement:WP01"
    assert opened == ["WP01-a.md"]


def test_a_review_is_lent_to_one_agent_at_a_time(repo, store):
    def ask(agent, later=timedelta(0)):
        found = stands(repo, store, agent)
        return lend(found._replace(now=NOW + later).again(store), store, LEASE)

    for id_ in ("WP01", "WP02"):
        done = Report("success", None, f"implement:{id_}")
        report(stands(repo, store), store, done, LEASE, believe, NEVER)
    assert [ask(name).where.name for name in ("bob", "cat", "bob")] == [
        "review:WP01",
        "review:WP02",
        "review:WP01",
    ]
    told = ask("dan")
    assert (told.kind, told.reason_code) == ("blocked", "waiting")
    assert "auth.WP01 is in review by bob; auth.WP02 is in review by cat" in told.reason
    assert next_step.decide(stands(repo, store, "human"), store).reason_code == "waiting"
    assert ask("dan", LEASE + timedelta(seconds=1)).where.name == "review:WP01"
    failed = Report("failed", "no", "review:WP02")
    report(stands(repo, store, "cat"), store, failed, LEASE, believe, NEVER)
    assert store.task("auth.WP02").lane == "claimed"  # by cat, who asked with its report
    assert [row.step for row in store.mission_steps("auth")] == ["WP02", "review:WP01"]
