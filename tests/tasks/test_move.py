"""Lanes change by legal moves of whoever may make them."""

import pytest

from treadle.errors import BlockedError, UsageError
from treadle.tasks import lanes
from treadle.tasks.claim import LEASE, Holder, claim, finish_task, move_task

ADA = Holder("ada")


@pytest.mark.parametrize("old", lanes.LANES)
def test_legal_moves_are_made(store, add, now, old):
    for new in lanes.legal(old):
        task_id = add(old)
        changed = move_task(store, task_id, new, ADA, now, reason="because")
        assert (changed.before.lane, changed.after.lane) == (old, new)
        assert store.task(task_id) == changed.after


@pytest.mark.parametrize("old", lanes.LANES)
def test_other_moves_are_refused_with_the_legal_lanes(store, add, now, old):
    task_id = add(old)
    for new in [lane for lane in lanes.LANES if lane not in lanes.legal(old)]:
        with pytest.raises(BlockedError, match=f"T-1 is {old} and cannot become {new}") as caught:
            move_task(store, task_id, new, ADA, now, reason="because")
        assert caught.value.details["legal"] == list(lanes.legal(old))
    assert store.task(task_id).lane == old


def test_a_task_in_hand_has_a_claim_and_others_have_none(store, add, now):
    task_id = add()
    held = claim(store, task_id, "ada", now)
    working = move_task(store, task_id, "in_progress", Holder("ada", held.claim_id), now).after
    assert (working.claim_id, working.owner) == (held.claim_id, "ada")
    review = move_task(store, task_id, "for_review", ADA, now).after
    assert (review.claim_id, review.lease_until, review.owner) == (None, None, "ada")
    back = move_task(
        store, task_id, "in_progress", Holder("bob"), now, reason="tests missing"
    ).after
    assert (back.owner, bool(back.claim_id)) == ("bob", True)


def test_only_the_holder_moves_while_the_lease_runs(store, add, now):
    task_id = add()
    claim(store, task_id, "ada", now)
    with pytest.raises(BlockedError, match="held by ada"):
        move_task(store, task_id, "blocked", Holder("bob"), now)
    assert move_task(store, task_id, "blocked", Holder("bob"), now + LEASE).after.lane == "blocked"


def test_moving_a_planned_task_into_hand_is_a_claim_and_waits_like_one(store, add, now):
    first = add()
    second = add(depends_on=[first])
    with pytest.raises(BlockedError, match="waits for T-1"):
        move_task(store, second, "claimed", ADA, now)
    assert move_task(store, first, "claimed", ADA, now).after.owner == "ada"


def test_sending_back_needs_a_reason_and_it_is_kept(store, add, now):
    task_id = add("in_review")
    with pytest.raises(UsageError, match="needs --reason"):
        move_task(store, task_id, "in_progress", ADA, now)
    move_task(store, task_id, "in_progress", ADA, now, reason="no tests")
    last = store.task_moves(task_id)[-1]
    assert (last.who, last.from_lane, last.to_lane) == ("ada", "in_review", "in_progress")
    assert (last.reason, last.forced) == ("no tests", False)


def test_force_needs_a_reason_and_is_recorded(store, add, now):
    task_id = add()
    claim(store, task_id, "bob", now)
    with pytest.raises(UsageError, match="--force on T-1 needs --reason"):
        move_task(store, task_id, "approved", ADA, now, force=True)
    assert (
        move_task(store, task_id, "approved", ADA, now, "it is fine", force=True).after.owner
        == "bob"
    )
    assert store.task_moves(task_id)[-1].forced


@pytest.mark.parametrize("lane", lanes.FINAL)
def test_final_lanes_stay_final_even_by_force(store, add, now, lane):
    task_id = add(lane)
    with pytest.raises(BlockedError, match="is final"):
        move_task(store, task_id, "planned", ADA, now, "again", force=True)


def test_a_plain_task_is_done_from_any_lane(store, add, now):
    for lane in [lane for lane in lanes.LANES if lane != "canceled"]:
        task_id = add(lane)
        assert finish_task(store, task_id, ADA, now).after.lane == "done"
        assert finish_task(store, task_id, ADA, now).after.lane == "done"


def test_done_is_refused_while_someone_else_works_or_others_are_missing(store, add, now):
    first = add()
    second = add(depends_on=[first])
    claim(store, first, "bob", now)
    with pytest.raises(BlockedError, match="held by bob"):
        finish_task(store, first, ADA, now)
    with pytest.raises(BlockedError, match="waits for T-1"):
        finish_task(store, second, ADA, now)


def test_a_canceled_task_cannot_be_done(store, add, now):
    task_id = add("canceled")
    with pytest.raises(BlockedError, match="canceled"):
        finish_task(store, task_id, ADA, now)


def test_a_missions_task_is_done_only_when_approved(store, add, now):
    task_id = add("for_review", task_id="auth.WP01", mission="auth")
    with pytest.raises(BlockedError, match="must be approved") as caught:
        finish_task(store, task_id, ADA, now)
    assert caught.value.fix == ("treadle task move auth.WP01 --to in_review",)
    move_task(store, task_id, "in_review", ADA, now)
    move_task(store, task_id, "approved", ADA, now)
    assert finish_task(store, task_id, ADA, now).after.lane == "done"
