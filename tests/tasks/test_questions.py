"""Questions wait on the desk until someone answers, once."""

import pytest

from tests.store.rows import RUN, run_row
from treadle.errors import NotFoundError, TreadleError
from treadle.ids import utc
from treadle.store.questions import LEAVE, Action, Subject
from treadle.tasks.questions import Question, ask, close, command, commands, find_open, settle

STOPPED = Question(
    "budget",
    "max_minutes is spent",
    Subject("run", RUN),
    (Action("resume", "max_minutes=480"), LEAVE),
    look=(f"treadle why {RUN}",),
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
    assert (found.subject, found.actions, found.run_id) == (*STOPPED[2:4], RUN)
    assert found.labels == ("resume", "leave it")
    resume = f"treadle run --resume {RUN} --budget max_minutes=480"
    assert commands(found) == (f"treadle why {RUN}", resume)
    assert asked.questions() == [found]


def test_the_same_open_question_is_asked_once(asked, now):
    first = ask(asked, STOPPED, now)
    assert ask(asked, STOPPED, now) == first
    assert ask(asked, STOPPED._replace(summary="max_tokens is spent"), now) == "Q-2"
    assert asked.answer(first, "raise it", "human", now)
    assert ask(asked, STOPPED, now) == "Q-3"


def test_an_answer_closes_the_question(asked, now):
    question_id = ask(asked, STOPPED, now)
    assert asked.answer(question_id, "raise it", "human", now)
    answered = asked.question(question_id)
    assert (answered.answer, answered.answered_by) == ("raise it", "human")
    assert asked.questions() == []
    assert asked.questions(open_only=False) == [answered]


def test_a_second_answer_is_refused_and_the_first_shown(asked, now):
    question_id = ask(asked, STOPPED, now)
    assert asked.answer(question_id, "raise it", "human", now)
    assert not asked.answer(question_id, "leave it", "ada", now)
    with pytest.raises(TreadleError, match=r"Q-1 was answered by human at .*: raise it"):
        find_open(asked, question_id)


def test_an_unknown_question_gets_the_nearest_id(asked, now):
    ask(asked, STOPPED, now)
    with pytest.raises(NotFoundError, match="no question Q-7; did you mean Q-1"):
        find_open(asked, "Q-7")


def test_a_run_that_moved_on_leaves_nothing_on_the_desk(asked, now):
    ask(asked, STOPPED, now)
    other = ask(asked, Question("question", "Which database?"), now)
    assert settle(asked, RUN, "the run was resumed", now) == 1
    assert [item.question_id for item in asked.questions()] == [other]
    assert asked.question("Q-1").answered_by == "treadle"


def test_questions_stay_in_order_past_nine(asked, now):
    ids = [ask(asked, Question("question", f"What about {n}?"), now) for n in range(12)]
    assert [item.question_id for item in asked.questions()] == ids


def test_what_is_closed_about_one_matter_stays_open_about_the_others(asked, now):
    mission = Subject("mission", "auth")
    for step in ("plan", "implement:WP01"):
        ask(asked, Question("question", f"{step} failed", mission, matter=step), now)
    close(asked, mission, "the work goes on", now, "plan")
    assert [item.matter for item in asked.questions()] == ["implement:WP01"]


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (Action("approve", "protected"), "treadle run --resume R --approve protected"),
        (Action("approve", "change"), "treadle run --resume R --approve change"),
        (Action("reject"), "treadle run --resume R --reject"),
        (Action("resume"), "treadle run --resume R"),
        (Action("resume", target="fleet"), "treadle run --resume R --fleet"),
        (Action("again", target="T-1"), "treadle run T-1"),
        (Action("again"), "treadle run --again R"),
        (Action("land"), "treadle land R"),
        (LEAVE, None),
    ],
)
def test_an_action_on_a_run_has_one_command(action, line):
    assert command(action, Subject("run", "R")) == line
