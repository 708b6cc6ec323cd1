"""A task has one holder at a time, for as long as the lease runs."""

from datetime import timedelta

import pytest

from tests.store.rows import child, output
from treadle.errors import BlockedError, UsageError
from treadle.ids import utc
from treadle.tasks.claim import LEASE, Holder, claim, move_task, release, renew

CLAIM = """
    import sys
    from datetime import UTC, datetime
    from pathlib import Path
    from treadle.errors import BlockedError
    from treadle.layout import Layout
    from treadle.store.store import Store
    from treadle.tasks.claim import claim
    with Store.open(Layout(Path(sys.argv[1]))) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            print("won", claim(store, "T-1", sys.argv[2], datetime.now(UTC)).owner)
        except BlockedError as error:
            print("lost", error.details["owner"])
"""


def test_a_claim_gives_a_lease_of_half_an_hour(store, add, now):
    held = claim(store, add(), "Ada", now)
    assert (held.lane, held.owner, held.lease_until) == ("claimed", "ada", utc(now + LEASE))
    assert timedelta(minutes=30) == LEASE
    assert held.claim_id


@pytest.mark.parametrize("owner", ["bob", "ada"])
def test_a_held_task_is_refused_and_the_holder_named(store, add, now, owner):
    task_id = add()
    claim(store, task_id, "ada", now)
    with pytest.raises(BlockedError, match="T-1 is claimed, held by ada until") as caught:
        claim(store, task_id, owner, now + LEASE / 2)
    assert caught.value.fix == ("treadle task show T-1",)
    assert caught.value.details["legal"] == ["in_progress", "planned", "blocked", "canceled"]


def test_an_expired_lease_can_be_taken_over_and_the_old_holder_is_refused(store, add, now):
    task_id, later = add(), now + LEASE
    old = claim(store, task_id, "ada", now)
    new = claim(store, task_id, "bob", later)
    assert (new.owner, new.lane) == ("bob", "claimed")
    assert not renew(store, task_id, old.claim_id, later)
    for verb in (
        lambda: release(store, task_id, Holder("ada", old.claim_id), later),
        lambda: move_task(store, task_id, "in_progress", Holder("ada", old.claim_id), later),
    ):
        with pytest.raises(BlockedError, match="held by bob and not by this claim of ada"):
            verb()
    assert store.task(task_id) == new


def test_the_old_holder_is_refused_even_after_a_namesake_took_over(store, add, now):
    task_id, later = add(), now + LEASE
    old = claim(store, task_id, "ada", now)
    claim(store, task_id, "ada", later)
    with pytest.raises(BlockedError):
        release(store, task_id, Holder("ada", old.claim_id), later)


def test_a_holder_whose_lease_ran_out_unnoticed_may_go_on(store, add, now):
    task_id = add()
    held = claim(store, task_id, "ada", now)
    later = now + 2 * LEASE
    assert renew(store, task_id, held.claim_id, later)
    assert store.task(task_id).lease_until == utc(later + LEASE)


def test_renewing_writes_only_when_half_the_lease_is_used(store, add, now):
    task_id = add()
    held = claim(store, task_id, "ada", now)
    assert renew(store, task_id, held.claim_id, now + LEASE / 3)
    assert store.task(task_id) == held


def test_release_gives_the_task_back(store, add, now):
    task_id = add()
    claim(store, task_id, "ada", now)
    freed = release(store, task_id, Holder("ada"), now)
    assert (freed.lane, freed.owner, freed.claim_id) == ("planned", None, None)
    with pytest.raises(BlockedError, match="T-1 is planned and cannot become planned"):
        release(store, task_id, Holder("ada"), now)


def test_only_the_holder_releases_while_the_lease_runs(store, add, now):
    task_id = add()
    claim(store, task_id, "ada", now)
    with pytest.raises(BlockedError, match="held by ada"):
        release(store, task_id, Holder("bob"), now)
    assert release(store, task_id, Holder("bob"), now + LEASE).lane == "planned"


def test_a_task_that_waits_cannot_be_claimed(store, add, now):
    first, second = add(), add()
    third = add(depends_on=[first, second])
    move_task(store, second, "canceled", Holder("ada"), now)
    with pytest.raises(BlockedError, match=r"T-3 .* waits for T-1 .planned., T-2 .cance") as caught:
        claim(store, third, "ada", now)
    assert caught.value.fix == (
        "treadle run T-1",
        "treadle task link T-3 --depends-on T-2 --remove",
    )


@pytest.mark.parametrize("lane", ["for_review", "approved", "blocked", "done", "canceled"])
def test_other_lanes_cannot_be_claimed(store, add, now, lane):
    task_id = add(lane)
    with pytest.raises(BlockedError, match=f"T-1 is {lane} and cannot become claimed"):
        claim(store, task_id, "ada", now)


@pytest.mark.parametrize("owner", ["", "a b", "x\ny", "-a", "a" * 65, "ü"])
def test_an_owner_must_have_a_plain_name(store, add, now, owner):
    with pytest.raises(UsageError, match="is not an agent's name"):
        claim(store, add(), owner, now)


def test_rooster_and_human_are_one_person(store, add, now):
    task_id = add()
    assert claim(store, task_id, "Rooster", now).owner == "human"
    assert release(store, task_id, Holder("human"), now).lane == "planned"


def test_nobody_claims_as_everybody(store, add, now):
    with pytest.raises(UsageError, match="everybody"):
        claim(store, add(), "all", now)


def test_of_sixteen_processes_one_gets_the_task(store, layout, add):
    add()
    children = [child(CLAIM, layout.root, f"agent{number}") for number in range(16)]
    for process in children:
        process.stdout.readline()
    for process in children:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [output(process).split() for process in children]
    winner = store.task("T-1").owner
    assert sorted(answers) == sorted([["won", winner]] + [["lost", winner]] * 15)
