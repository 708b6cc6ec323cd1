"""What waits for a human, and what an answer does."""

import subprocess
from datetime import UTC, datetime

import pytest

from treadle.desk import Words, answer, finish
from treadle.errors import NotFoundError, TreadleError, UsageError
from treadle.ids import utc
from treadle.layout import Layout
from treadle.mail import effect, find
from treadle.mail.letter import Draft
from treadle.proc import identity
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.store import Store
from treadle.store.tasks import MissionStepRow
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
    assert (first.kind, first.every_command) == (
        "budget",
        ("treadle desk show Q-1", "treadle answer Q-1 resume"),
    )
    assert second.answers == ('treadle answer Q-2 "your answer"',)


@pytest.mark.parametrize(("option", "reviewed"), [(1, True), (2, False)])
def test_an_approval_is_a_review_and_tells_who_asked(layout, store, option, reviewed):
    effect.send(layout, Draft("boss", "all", "fix_bug", "Mend", "B-1"), NOW)
    effect.send(layout, Draft("ada", "human", "approval_request", "Merge?", "B-1"), NOW)
    (item,) = store.questions()
    assert item.labels == ("approve", "reject")
    given = answer(store, item.question_id, Words(option=option), NOW)
    letter = find.open_letter(layout.mail, find.find_letter(store, given.letter))
    assert (letter.to, letter.status) == ("ada", "completed" if reviewed else "failed")
    assert task.standing(store, store.task("B-1")).peer_reviewed == reviewed
    assert store.questions() == []


def ask_about_run(store, *actions, kind="failed_run"):
    return questions.ask(store, Question(kind, "Failed", Subject("run", "R"), actions), NOW)


def test_an_answer_that_starts_something_counts_when_that_is_done(store):
    item = ask_about_run(store, Action("again", target="T-1"), LEAVE)
    given = answer(store, item, Words(option=1), NOW)
    assert (given.answer, given.action.verb, given.letter) == ("again", "again", None)
    assert given.commands == ("treadle run T-1",)
    assert store.question(item).is_open
    finish(store, given, True, NOW)
    closed = store.question(item)
    assert (closed.answer, closed.action, closed.answered_by) == ("again", "again", "human")


def test_what_could_not_be_carried_out_can_be_answered_again(store):
    item = ask_about_run(store, Action("resume"), LEAVE)
    finish(store, answer(store, item, Words("resume", "mind the gap"), NOW), False, NOW)
    found = store.question(item)
    assert (found.answered_by, found.answer, found.action) == (None, None, None)
    again = answer(store, item, Words("resume"), NOW)
    assert again.commands == ("treadle run --resume R",)


def test_of_two_who_answer_one_is_told_the_others_answer(store):
    item = ask_about_run(store, Action("resume"), LEAVE)
    row = store.question(item)
    other = subprocess.Popen(["sleep", "600"])
    try:
        alive = identity._of_pid.__wrapped__(other.pid).encode()
        assert store.take_question(row, "first", alive, "resume")
        with pytest.raises(TreadleError, match="is being answered: resume: first") as refused:
            answer(store, item, Words("leave"), NOW)
        assert (refused.value.exit_code, refused.value.code) == (1, "question_answered")
    finally:
        other.kill()
        other.wait()
    # Whoever took it is dead: the next one gets it.
    assert answer(store, item, Words("leave"), NOW).action == LEAVE


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (Words("resume", "use tabs"), "treadle run --resume R --note 'use tabs'"),
        (Words("use tabs"), "treadle run --resume R --note 'use tabs'"),
        (Words(text="use tabs"), "treadle run --resume R --note 'use tabs'"),
        (Words("again", "-x"), "treadle run --again R --note=-x"),
        (Words(option=2), "treadle run --again R"),
        (Words("leave"), None),
    ],
)
def test_words_go_along_with_what_goes_on(store, said, line):
    item = ask_about_run(store, Action("resume"), Action("again"), LEAVE)
    assert answer(store, item, said, NOW).commands == ((line,) if line else ())


def test_words_alone_decide_nothing(store):
    item = ask_about_run(store, Action("approve", "protected"), Action("reject"), LEAVE)
    with pytest.raises(UsageError, match="asks for a decision") as refused:
        answer(store, item, Words("hm, well"), NOW)
    assert refused.value.fix == tuple(
        f"treadle answer {item} {verb}" for verb in ("approve", "reject", "leave")
    )
    assert store.question(item).answered_by is None


def test_an_approval_counts_before_the_pass_that_looks_for_it(store):
    about = Subject("message", "m-1")
    question = Question("approval", "May it?", about, questions.APPROVE_OR_NOT)
    given = answer(store, questions.ask(store, question, NOW), Words("yes"), NOW)
    assert given.commands == ("treadle process m-1",)
    assert questions.newest(store, about).action == "approve"


def test_a_step_of_a_mission_goes_on_with_the_words(store):
    store.report_step(MissionStepRow("auth", "WP01", 3, False, "no luck", "ada", utc(NOW)))
    about = Subject("mission", "auth")
    question = Question("question", "Failed", about, (Action("retry"), LEAVE), matter="WP01")
    answer(store, questions.ask(store, question, NOW), Words("use the other port"), NOW)
    assert [(row.failures, row.note) for row in store.mission_steps("auth")] == [(0, "no luck")]
    assert questions.newest(store, about).words == "use the other port"


def test_an_answer_that_cannot_be_sent_leaves_the_item_open(layout, store):
    effect.send(layout, Draft("ada", "human", "escalate", "Which?", "B-1"), NOW)
    (item,) = store.questions()
    layout.mail.new.rename(layout.mail.root / "aside")
    layout.mail.new.touch()  # a file where the letters go
    with pytest.raises(OSError, match="NEW_MESSAGES"):
        answer(store, item.question_id, Words("this"), NOW)
    assert [found.question_id for found in store.questions()] == [item.question_id]


def test_bad_answers_are_refused_and_the_item_stays(layout, store):
    colours = (Action("answer", "red"), Action("answer", "blue"))
    item = questions.ask(store, Question("question", "Which?", actions=colours), NOW)
    for text, option in ((None, None), ("a", 1), (None, 3), (None, 0), (" ", None)):
        with pytest.raises(UsageError):
            answer(store, item, Words(text, option=option), NOW)
    with pytest.raises(NotFoundError, match="did you mean Q-1"):
        answer(store, "Q-11", Words("x"), NOW)
    assert len(store.questions()) == 1
