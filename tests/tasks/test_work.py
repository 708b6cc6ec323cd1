"""A run claims its task, keeps it, and moves it by how it ends."""

import pytest

from tests.store.rows import RUN, run_row
from treadle.errors import BlockedError
from treadle.tasks.claim import (
    LEASE,
    Holder,
    begin_run,
    claim,
    finish_run,
    move_task,
    reconcile_runs,
    renew,
)

OTHER = "20260123-150000-0000ff"


def test_a_run_puts_its_task_in_progress(store, add, now):
    task = begin_run(store, add(), RUN, now)
    assert (task.lane, task.owner, task.claim_id) == ("in_progress", "human", RUN)


@pytest.mark.parametrize(
    ("outcome", "mission", "lane"),
    [
        ("passed", None, "approved"),
        ("passed", "auth", "for_review"),
        ("failed", None, "blocked"),
        ("stopped", None, "in_progress"),
    ],
)
def test_the_lane_follows_the_outcome_and_the_claim_ends(store, add, now, outcome, mission, lane):
    task_id = add(mission=mission)
    begin_run(store, task_id, RUN, now)
    task = finish_run(store, run_row(task_id=task_id, status=outcome, head_commit="c1"), now)
    assert (task.lane, task.claim_id, task.owner) == (lane, None, "human")


@pytest.mark.parametrize("outcome", ["failed", "stopped"])
@pytest.mark.parametrize("run_id", [RUN, OTHER], ids=["resumed", "anew"])
def test_a_task_that_did_not_pass_can_be_run_again(store, add, now, outcome, run_id):
    task_id = add()
    begin_run(store, task_id, RUN, now)
    finish_run(store, run_row(task_id=task_id, status=outcome, head_commit="c1"), now)
    assert begin_run(store, task_id, run_id, now).lane == "in_progress"


def test_beginning_twice_is_the_same_as_once(store, add, now):
    task_id = add()
    assert begin_run(store, task_id, RUN, now) == begin_run(store, task_id, RUN, now)


@pytest.mark.parametrize("lane", ["for_review", "approved", "done", "canceled"])
def test_work_under_review_or_over_is_not_begun_again(store, add, now, lane):
    with pytest.raises(BlockedError, match=f"is {lane} and cannot become in_progress"):
        begin_run(store, add(lane), RUN, now)


def test_a_task_that_waits_is_not_begun(store, add, now):
    second = add(depends_on=[add()])
    with pytest.raises(BlockedError, match="waits for T-1"):
        begin_run(store, second, RUN, now)


def test_another_run_under_way_keeps_the_task(store, add, now):
    task_id = add()
    begin_run(store, task_id, RUN, now)
    store.insert_run(run_row(task_id=task_id), (), {})
    with pytest.raises(BlockedError, match=f"run {RUN} waits or works") as caught:
        begin_run(store, task_id, OTHER, now)
    assert caught.value.fix == (f"treadle runs show {RUN}", f"treadle stop {RUN}")


@pytest.mark.parametrize("rows", [[], [run_row(status="stopped")]], ids=["no run", "stopped"])
def test_the_claim_of_a_run_that_is_over_holds_nobody_up(store, add, now, rows):
    task_id = add()
    begin_run(store, task_id, RUN, now)
    for row in rows:
        store.insert_run(row, (), {})
    assert begin_run(store, task_id, OTHER, now).claim_id == OTHER


def test_whoever_holds_a_task_may_run_it_and_others_may_not(store, add, now):
    task_id = add()
    claim(store, task_id, "ada", now)
    with pytest.raises(BlockedError, match="held by ada"):
        begin_run(store, task_id, RUN, now)
    assert begin_run(store, task_id, RUN, now, by="ada").claim_id == RUN


def test_a_heartbeat_keeps_the_lease_and_notices_the_loss(store, add, now):
    task_id = add()
    begin_run(store, task_id, RUN, now)
    assert renew(store, task_id, RUN, now + LEASE * 0.9)
    with pytest.raises(BlockedError):
        claim(store, task_id, "ada", now + LEASE * 1.5)
    claim(store, task_id, "ada", now + LEASE * 2)
    assert not renew(store, task_id, RUN, now + LEASE * 2)


def test_a_run_that_lost_its_task_changes_nothing(store, add, now):
    task_id = add()
    begin_run(store, task_id, RUN, now)
    taken = claim(store, task_id, "ada", now + LEASE)
    assert finish_run(store, run_row(task_id=task_id, status="passed"), now + LEASE) == taken


def test_canceling_during_a_run_stands(store, add, now):
    task_id = add()
    begin_run(store, task_id, RUN, now)
    move_task(store, task_id, "canceled", Holder("human"), now)
    assert finish_run(store, run_row(task_id=task_id, status="passed"), now).lane == "canceled"


@pytest.mark.parametrize(
    ("rows", "lane"),
    [
        ([], "planned"),
        ([run_row(status="passed", head_commit="c1")], "approved"),
        ([run_row(status="failed")], "blocked"),
        ([run_row(status="stopped")], "in_progress"),
    ],
    ids=["never begun", "passed", "failed", "stopped"],
)
def test_a_crash_between_run_and_task_is_made_good(store, add, now, rows, lane):
    task_id = add()
    begin_run(store, task_id, RUN, now)
    for row in rows:
        store.insert_run(row._replace(task_id=task_id), (), {})
    assert [task.lane for task in reconcile_runs(store, now)] == [lane]
    assert store.task(task_id).claim_id is None
    assert reconcile_runs(store, now) == []


def test_a_run_under_way_is_left_alone(store, add, now):
    begin_run(store, add(), RUN, now)
    store.insert_run(run_row(), (), {})
    assert reconcile_runs(store, now) == []
