"""What the desk shows of the open questions."""

from datetime import UTC, datetime, timedelta

from treadle.store.questions import Subject
from treadle.tasks import questions
from treadle.tasks.questions import Question, of_fleet

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def ask(store, number, code):
    asked = Question("failed_run", f"run {number} stopped", Subject("run", f"r{number}"))
    asked = of_fleet(asked, "stopped", code)
    return questions.ask(store, asked, BEGUN + timedelta(seconds=number))


def test_one_cause_that_stops_many_fleet_runs_is_the_oldest_item(store):
    same = [ask(store, number, "push_refused") for number in range(11)]
    other = ask(store, 11, "setup_failed")
    own = [ask(store, number, "order_forged") for number in (12, 13)]
    assert [item.question_id for item in store.desk()] == [same[0], other, *own]
    questions.close(store, Subject("run", "r0"), "it passed", BEGUN)
    assert [item.question_id for item in store.desk()] == [same[1], other, *own]
    assert len(store.questions()) == 13
