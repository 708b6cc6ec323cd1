"""Reports change everything or nothing, and a question costs one look."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC
from tests.builder import git
from tests.missions.conftest import write_task
from treadle.layout import Layout
from treadle.missions import gates, state
from treadle.missions import mission as missions
from treadle.missions import next as next_step
from treadle.missions.next import Report, lend, report, retry
from treadle.missions.state import NextStep
from treadle.project import setup
from treadle.store.store import Store, Transaction
from treadle.store.tasks import MissionStepRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(hours=4)


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
    report(stands(repo, store), store, Report("success", None, "implement:WP01"), LEASE)
    store.report_step(MissionStepRow("auth", "WP01", 2, False, None, "ann", "now"))
    failed = Report("failed", "no", "review:WP01")
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "ask", die)
        with pytest.raises(Killed):
            report(stands(repo, store), store, failed, LEASE)
    assert store.task("auth.WP01").lane == "for_review"
    assert [row.failures for row in store.mission_steps("auth")] == [2]
    report(stands(repo, store), store, failed, LEASE)
    assert (store.task("auth.WP01").lane, len(store.questions())) == ("planned", 1)


def die(*_):
    raise Killed


def test_what_failed_too_often_is_asked_and_a_retry_closes_that(repo, store):
    for _ in range(3):
        halt = report(stands(repo, store), store, Report("failed", "no", "implement:WP01"), LEASE)
    assert (halt.kind, halt.reason_code) == ("decision_required", "failed_too_often")
    assert [item.task_id for item in store.questions()] == ["auth.WP01"]
    assert isinstance(retry(stands(repo, store), store, LEASE), NextStep)
    assert (store.questions(), store.mission_steps("auth")) == ([], [])


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


def test_old_prompts_are_deleted_when_a_new_one_is_written(repo, store):
    first = lend(stands(repo, store), store, LEASE).prompt_file
    week = NOW.timestamp() - 8 * 24 * 3600
    os.utime(first, (week, week))
    second = lend(stands(repo, store, "ben"), store, LEASE).prompt_file
    assert (first.exists(), second.exists()) == (False, True)
