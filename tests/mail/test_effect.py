"""What letters bring about."""

import pytest

from tests.mail.conftest import claim_next
from treadle.errors import BlockedError
from treadle.mail import effect, find
from treadle.mail.letter import Draft, compose, post
from treadle.store.store import Store
from treadle.tasks import claim, task
from treadle.tasks.claim import Holder

ESCALATION = """## Summary
Need human decision on security trade-off

## Options
1. **RS256 (current)**: Slower, more secure
2. **HS256**: Faster, shared secret
"""


@pytest.fixture
def claimed(post, store, mail, now):
    post("boss", "all", "fix_bug", "Mend it", task_id="B-1")
    claim_next(store, mail, "ada", now)


def test_escalating_blocks_the_task_and_asks_the_human(claimed, post, store, mail):
    name = post("ada", "boss", "escalate", ESCALATION, task_id="B-1")
    assert store.task("B-1").lane == "blocked"
    (question,) = store.questions()
    assert (question.kind, question.task_id) == ("question", "B-1")
    assert question.summary == "ada: Need human decision on security trade-off"
    assert question.labels == (
        "RS256 (current): Slower, more secure",
        "HS256: Faster, shared secret",
    )
    (copy,) = mail.inbox("human").glob("*.md")
    assert f"copy_of: {name}\n" in copy.read_text()


def test_an_answer_by_letter_settles_the_question_and_unblocks(claimed, post, store):
    name = post("ada", "human", "escalate", ESCALATION, task_id="B-1")
    message_id = find.find_letter(store, name).message_id
    post("human", "ada", "answer", "Take RS256", headers=(("in_reply_to", message_id),))
    assert store.questions() == []
    assert (store.task("B-1").lane, store.task("B-1").owner) == ("in_progress", "ada")


def test_results_count_unless_they_are_the_owners_own(claimed, post, store, mail):
    post("ada", "boss", "test_results", task_id="B-1", status="completed")
    assert not task.standing(store, store.task("B-1")).tests_passed
    post("qa", "ada", "test_results", task_id="B-1", status="completed")
    assert "tests_passed: true" in mail.task("B-1", "checks").read_text()
    post("qa", "ada", "test_results", task_id="B-1", status="failed")
    assert "tests_passed: false" in mail.task("B-1", "checks").read_text()


def test_completing_is_refused_until_the_tests_pass(claimed, post, store, now):
    with pytest.raises(BlockedError, match="while tests_passed is false"):
        claim.finish_task(store, "B-1", Holder("ada"), now)
    post("qa", "ada", "test_results", task_id="B-1", status="completed")
    assert claim.finish_task(store, "B-1", Holder("ada"), now).after.lane == "done"


def test_an_approving_answer_is_a_review(claimed, post, store):
    name = post("ada", "bob", "review_code", task_id="B-1")
    reference = (("in_reply_to", find.find_letter(store, name).message_id),)
    post("bob", "ada", "answer", "Fine", status="completed", task_id="B-1", headers=reference)
    assert task.standing(store, store.task("B-1")).peer_reviewed


def test_questions_to_a_human_reach_the_desk_and_those_to_others_do_not(post, store):
    post("ada", "bob", "question", "Which?")
    assert store.questions() == []
    post("ada", "human", "question", "Which?")
    post("ada", "human", "approval_request", "Merge?", task_id="B-1")
    assert [item.kind for item in store.questions()] == ["question", "approval"]


def test_a_claim_by_file_that_is_refused_is_answered(claimed, drop, store, mail, now):
    said = drop("20251121_180000_bob-boss_claim-task_B-1.md", "mine")
    assert "held by ada" in said[0]
    effect.refresh(store, mail, now)
    (told,) = [
        row
        for row in find.list_letters(store, find.LetterQuery("bob")).rows
        if row.sender == "treadle"
    ]
    assert (told.intent, told.status, "held by ada" in told.summary) == ("inform", "failed", True)
    assert store.task("B-1").owner == "ada"


class Overtaken(Store):
    """A store in which somebody else finishes the task before the first change is written."""

    def write(self, apply, **how):
        if apply.__qualname__.startswith("change_task.") and getattr(self, "done", None):
            done, self.done = self.done, None
            done()
        return super().write(apply, **how)


def test_escalating_leaves_a_task_that_was_finished_meanwhile(claimed, layout, mail, store, now):
    with Overtaken.open(layout) as overtaken:
        overtaken.done = lambda: claim.move_task(
            store, "B-1", "done", Holder("ada"), now, "finished", force=True
        )
        letter = compose(Draft("ada", "boss", "escalate", "Help", "B-1"), now)
        sent = post(mail, letter)
        effect.see(overtaken, mail, sent.name, letter, now)
    assert store.task("B-1").lane == "done"
