"""A letter has one claimant, and a work letter's task goes with it."""

import os
import time
from datetime import timedelta

import pytest

from tests.mail.conftest import claim_next
from treadle.errors import BlockedError, NotFoundError
from treadle.mail import effect, index
from treadle.mail.claim import claim, take_row
from treadle.store import letters as table
from treadle.tasks import claim as tasks

WORK = "20251121_170000_boss-all_fix-bug_B-1.md"


@pytest.fixture
def work(post):
    return post("boss", "all", "fix_bug", "Mend it", task_id="B-1")


def test_claiming_moves_the_letter_and_takes_the_task(store, mail, work, now, tree):
    taken = claim_next(store, mail, "ada", now)
    assert tree() == [f"AGENTS/ada/INBOX/{WORK}"]
    assert (taken.task.owner, taken.task.lane) == ("ada", "claimed")
    assert taken.row.claim_id == store.task("B-1").claim_id
    assert "status: claimed" in mail.task("B-1", "status").read_text()
    assert "owner: ada" in mail.task("B-1", "owner").read_text()
    assert claim_next(store, mail, "bob", now) is None


def test_a_lost_task_leaves_the_letter(store, mail, work, post, now, tree):
    post("boss", "ada", "claim_task", task_id="B-1", at=now)
    post("ada", "boss", "inform", task_id="B-1")
    assert claim_next(store, mail, "bob", now) is None
    with pytest.raises(BlockedError, match="held by boss"):
        claim(store, "bob", work, now)
    assert f"NEW_MESSAGES/{WORK}" in tree()


def test_letters_come_oldest_first_and_only_to_the_addressee(store, mail, post, now):
    later = post("a", "ada", "inform", "second", at=now + timedelta(seconds=5))
    first = post("a", "ada", "inform", "first")
    other = post("a", "bob", "inform", "not hers")
    assert [claim_next(store, mail, "ada", now).row.name for _ in range(2)] == [first, later]
    assert claim_next(store, mail, "ada", now) is None
    with pytest.raises(BlockedError, match="addressed to bob, not to ada"):
        claim(store, "ada", other, now)


def test_a_claimed_letter_names_its_holder(store, mail, work, now):
    claim_next(store, mail, "ada", now)
    with pytest.raises(BlockedError, match="held by ada"):
        claim(store, "bob", work, now)


def test_expired_letters_are_not_handed_out(store, mail, post, now):
    ended = (("expires_at", "2025-11-21T16:00:00Z"),)
    post("a", "ada", "inform", headers=ended)
    assert claim_next(store, mail, "ada", now) is None


def test_a_letter_that_another_program_takes_meanwhile_is_passed_over(store, mail, post, now):
    gone, there = post("a", "ada", "inform", "1"), post("a", "ada", "inform", "2")
    (mail.new / gone).unlink()
    assert claim_next(store, mail, "ada", now).row.name == there
    with pytest.raises(NotFoundError):
        claim(store, "ada", gone, now)


def test_a_task_is_given_back_when_its_letter_is_gone(store, mail, work, now):
    (mail.new / work).unlink()
    with pytest.raises(NotFoundError):
        claim(store, "ada", work, now)
    assert store.task("B-1").lane == "planned"


def test_testing_somebody_elses_task_leaves_it_theirs(store, mail, work, post, now):
    claim_next(store, mail, "ada", now)
    post("ada", "qa", "test", task_id="B-1")
    taken = claim_next(store, mail, "qa", now)
    assert (taken.row.intent, taken.task) == ("test", None)
    assert store.task("B-1").owner == "ada"


def test_a_claim_cut_off_before_the_file_moved_is_finished(store, mail, work, now, tree):
    long_ago = time.time_ns() - 10_000_000_000
    os.utime(mail.new, ns=(long_ago, long_ago))
    effect.refresh(store, mail, now)
    store.write(lambda tx: take_row(tx, mail, "ada", now))
    assert claim_next(store, mail, "bob", now) is None
    assert tree() == [f"AGENTS/ada/INBOX/{WORK}"]


def test_a_release_that_a_kill_cuts_off_is_finished_by_the_next_look(store, mail, work, now, tree):
    taken = claim_next(store, mail, "ada", now)
    tasks.release(store, "B-1", tasks.Holder("ada"), now)
    assert tree() == [f"AGENTS/ada/INBOX/{WORK}"]  # cut off before the letter's row
    assert index.is_stale(store, mail)
    table.place(store, taken.row._replace(claim_id=None), index.NEW, iter((WORK,)))
    effect.refresh(store, mail, now)  # cut off before the letter's file
    assert tree() == [f"NEW_MESSAGES/{WORK}"]
    assert store.task("B-1").lane == "planned"
    assert claim_next(store, mail, "bob", now).task.owner == "bob"


def test_a_letter_comes_back_when_its_task_is_released(store, mail, work, now, tree):
    claim_next(store, mail, "ada", now)
    tasks.release(store, "B-1", tasks.Holder("ada"), now)
    effect.refresh(store, mail, now)
    assert tree() == [f"NEW_MESSAGES/{WORK}"]


def test_a_letter_of_work_that_is_done_is_filed_whoever_was_cut_off(store, mail, work, now, tree):
    claim_next(store, mail, "ada", now)
    way = {"reason": "seen", "force": True}
    tasks.move_task(store, "B-1", "done", tasks.Holder("ada"), now, **way)  # and no letter moved
    assert index.is_stale(store, mail)
    effect.refresh(store, mail, now)
    assert tree() == [f"LOGS/{WORK}"]


def test_a_letter_of_an_expired_claim_is_had_by_who_asks_for_work(store, mail, work, now, tree):
    claim_next(store, mail, "ada", now)
    later = now + timedelta(hours=1)
    effect.refresh(store, mail, later)
    assert tree() == [f"AGENTS/ada/INBOX/{WORK}"]  # nobody wants it
    assert claim_next(store, mail, "bob", later).task.owner == "bob"
    assert tree() == [f"AGENTS/bob/INBOX/{WORK}"]


def test_a_letter_about_anothers_task_stays_when_that_is_released(store, mail, work, post, now):
    claim_next(store, mail, "ada", now)
    name = post("ada", "qa", "test", task_id="B-1")
    claim_next(store, mail, "qa", now)
    tasks.release(store, "B-1", tasks.Holder("ada"), now)
    effect.refresh(store, mail, now)
    assert (mail.inbox("qa") / name).exists()


def test_two_looks_at_once_may_follow_one_letter(store, work):
    (row,) = table.named(store, WORK)
    assert table.place(store, row, index.of_folder("AGENTS/ada/INBOX"), iter((WORK,)))
    assert table.place(store, row, index.of_folder("AGENTS/ada/INBOX"), iter((WORK,))) is None
