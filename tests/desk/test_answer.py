"""What waits for a human, and what an answer does."""

from datetime import UTC, datetime

import pytest

from treadle.desk import answer
from treadle.errors import NotFoundError, UsageError
from treadle.layout import Layout
from treadle.mail import effect, find
from treadle.mail.letter import Draft
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.store import Store
from treadle.tasks import questions, task
from treadle.tasks.questions import Question

NOW = datetime(2026, 1, 23, 15, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "project")


@pytest.fixture
def store(layout):
    with Store.open(layout) as opened:
        yield opened


def test_items_come_oldest_first_with_their_commands(store):
    run = Subject("run", "R")
    questions.ask(store, Question("budget", "More?", run, (Action("resume"),)), NOW)
    questions.ask(store, Question("question", "Which?"), NOW)
    first, second = store.questions()
    assert (first.kind, questions.every_command(first)) == (
        "budget",
        ("treadle run --resume R", "treadle answer Q-1 --option 1"),
    )
    assert questions.every_command(second) == ('treadle answer Q-2 "TEXT"',)


@pytest.mark.parametrize(("option", "reviewed"), [(1, True), (2, False)])
def test_an_approval_is_a_review_and_tells_who_asked(layout, store, option, reviewed):
    effect.send(layout, Draft("boss", "all", "fix_bug", "Mend", "B-1"), NOW)
    effect.send(layout, Draft("ada", "human", "approval_request", "Merge?", "B-1"), NOW)
    (item,) = store.questions()
    assert questions.labels(item) == ("approve", "reject")
    given = answer(layout, store, item.question_id, None, option, NOW)
    letter = find.open_letter(layout.mail, find.find_letter(store, given.letter))
    assert (letter.to, letter.status) == ("ada", "completed" if reviewed else "failed")
    assert task.standing(store, store.task("B-1")).peer_reviewed == reviewed
    assert store.questions() == []


def test_an_answer_that_starts_something_only_names_the_command(layout, store):
    actions = (Action("again", target="T-1"), LEAVE)
    item = questions.ask(store, Question("failed_run", "Failed", Subject("run", "R"), actions), NOW)
    given = answer(layout, store, item, None, 1, NOW)
    assert (given.question.answer, given.action, given.letter) == ("again", "again", None)
    assert given.fix == ("treadle run T-1",)


def test_a_dead_letter_is_retried_by_its_answer(layout, store):
    layout.inbox_dead.mkdir(parents=True)
    (layout.inbox_dead / "a.md").write_text("Go\n")
    question = Question("dead_letter", "a.md: odd", Subject("message", "a.md"), (Action("retry"),))
    given = answer(layout, store, questions.ask(store, question, NOW), "retry", None, NOW)
    assert (given.fix, store.questions()) == (("treadle process",), [])
    assert (layout.inbox / "a.md").read_text() == "Go\n"


def test_an_answer_that_cannot_be_sent_leaves_the_item_open(layout, store):
    effect.send(layout, Draft("ada", "human", "escalate", "Which?", "B-1"), NOW)
    (item,) = store.questions()
    layout.mail.new.rename(layout.mail.root / "aside")
    layout.mail.new.touch()  # a file where the letters go
    with pytest.raises(OSError, match="NEW_MESSAGES"):
        answer(layout, store, item.question_id, "this", None, NOW)
    assert [found.question_id for found in store.questions()] == [item.question_id]


def test_bad_answers_are_refused_and_the_item_stays(layout, store):
    colours = (Action("answer", "red"), Action("answer", "blue"))
    item = questions.ask(store, Question("question", "Which?", actions=colours), NOW)
    for text, option in ((None, None), ("a", 1), (None, 3), (None, 0), (" ", None)):
        with pytest.raises(UsageError):
            answer(layout, store, item, text, option, NOW)
    with pytest.raises(NotFoundError, match="did you mean Q-1"):
        answer(layout, store, "Q-11", "x", None, NOW)
    assert len(store.questions()) == 1
