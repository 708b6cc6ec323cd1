"""Questions wait on the desk until someone answers, once."""

import pytest

from tests.store.rows import RUN, run_row
from treadle.errors import NotFoundError, UsageError
from treadle.ids import utc
from treadle.tasks.questions import Question, answer, ask, settle

STOPPED = Question(
    "budget",
    "max_minutes is spent",
    options=("raise it", "leave it"),
    fix=(f"treadle run --resume {RUN} --budget max_minutes=480",),
    run_id=RUN,
    task_id="T-1",
)


@pytest.fixture
def asked(store):
    """Return a store with the run the questions are about."""
    store.insert_run(run_row(), (), {})
    return store


def test_a_question_reads_back_as_it_was_asked(asked, now):
    question_id = ask(asked, STOPPED, now)
    found = asked.question(question_id)
    assert question_id == "Q-1"
    assert (found.kind, found.summary, found.created_at) == ("budget", STOPPED.summary, utc(now))
    assert (found.options, found.fix, found.run_id) == (STOPPED.options, STOPPED.fix, RUN)
    assert asked.questions() == [found]


def test_the_same_open_question_is_asked_once(asked, now):
    first = ask(asked, STOPPED, now)
    assert ask(asked, STOPPED, now) == first
    assert ask(asked, STOPPED._replace(summary="max_tokens is spent"), now) == "Q-2"
    answer(asked, first, "raise it", "human", now)
    assert ask(asked, STOPPED, now) == "Q-3"


def test_an_answer_closes_the_question(asked, now):
    question_id = ask(asked, STOPPED, now)
    answered = answer(asked, question_id, "raise it", "human", now)
    assert (answered.answer, answered.answered_by) == ("raise it", "human")
    assert asked.questions() == []
    assert asked.questions(open_only=False) == [answered]


def test_a_second_answer_is_refused_and_the_first_shown(asked, now):
    question_id = ask(asked, STOPPED, now)
    answer(asked, question_id, "raise it", "human", now)
    with pytest.raises(UsageError, match=r"Q-1 was answered by human at .*: raise it"):
        answer(asked, question_id, "leave it", "ada", now)


def test_an_unknown_question_gets_the_nearest_id(asked, now):
    ask(asked, STOPPED, now)
    with pytest.raises(NotFoundError, match="no question Q-7; did you mean Q-1"):
        answer(asked, "Q-7", "yes", "human", now)


def test_a_run_that_moved_on_leaves_nothing_on_the_desk(asked, now):
    ask(asked, STOPPED, now)
    other = ask(asked, Question("question", "Which database?"), now)
    assert settle(asked, RUN, "the run was resumed", now) == 1
    assert [item.question_id for item in asked.questions()] == [other]
    assert asked.question("Q-1").answered_by == "treadle"


def test_questions_stay_in_order_past_nine(asked, now):
    ids = [ask(asked, Question("question", f"What about {n}?"), now) for n in range(12)]
    assert [item.question_id for item in asked.questions()] == ids
