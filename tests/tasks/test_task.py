"""Tasks are added in order, wait for each other, and never in a circle."""

import pytest

from tests.store.rows import run_row
from treadle.contract import Criterion
from treadle.errors import NotFoundError, UsageError
from treadle.store.tasks import TaskRow
from treadle.tasks import task
from treadle.tasks.claim import Holder, claim, finish_task
from treadle.tasks.task import criteria_from_flags, find_task

CRITERIA = criteria_from_flags("goal", ["Tests pass", "AC7: No warnings"], ["AC1=pytest -q"])


def ready(store, now):
    return [row.task_id for row in task.ready(store, now)]


def test_a_task_reads_back_with_its_criteria(store, now):
    new = TaskRow("AUTH-012", "Add login", "# Add login\n\nwith care", CRITERIA, source="cli")
    added = task.add(store, new, now)
    assert store.task("AUTH-012") == added
    assert added.criteria == (
        Criterion("AC1", "Tests pass", "pytest -q"),
        Criterion("AC7", "No warnings"),
    )
    assert (added.lane, added.owner, added.text) == ("planned", None, "# Add login\n\nwith care")


def test_ids_are_numbered_past_those_in_use_and_reserved(store, add):
    assert add() == "T-1"
    add(task_id="T-3")
    assert store.reserve_task_id() == "T-2"
    assert add() == "T-4"


def test_tasks_keep_the_order_in_which_they_were_added(store, add):
    for task_id in ("Z", "A", "M"):
        add(task_id=task_id)
    assert [row.task_id for row in store.tasks()] == ["Z", "A", "M"]
    assert [row.task_id for row in store.tasks("planned")] == ["Z", "A", "M"]
    assert store.tasks("done") == []


def test_a_taken_id_is_refused(add):
    add(task_id="AUTH-1")
    with pytest.raises(UsageError, match="already is a task AUTH-1") as caught:
        add(task_id="AUTH-1")
    assert caught.value.fix == ("treadle task show AUTH-1",)


@pytest.mark.parametrize("task_id", ["", "../x", "1", "a b", "a" * 65, "-a"])
def test_an_id_that_cannot_name_a_file_is_refused(task_id):
    with pytest.raises(UsageError, match="--id"):
        task.check_id(task_id)


def test_an_empty_goal_is_refused(store, now):
    with pytest.raises(UsageError, match="needs a goal"):
        task.add(store, TaskRow("", "  ", criteria=CRITERIA), now)


def test_an_unknown_task_gets_the_nearest_id(store, add):
    add(task_id="AUTH-012")
    with pytest.raises(NotFoundError, match="did you mean AUTH-012"):
        find_task(store, "AUTH-102")


def test_show_tells_what_is_around_a_task(store, add, now):
    first, second, third = add(), add(), add()
    task.link(store, second, [first])
    task.link(store, third, [second])
    store.insert_run(run_row(task_id=second), (), {})
    claim(store, first, "ada", now)
    shown = task.whole_document(store, find_task(store, second), now)
    assert (shown["depends_on"], shown["needed_by"]) == ([first], [third])
    assert [row["run_id"] for row in shown["runs"]] == [run_row().run_id]
    (move,) = task.whole_document(store, find_task(store, first), now)["moves"]
    assert (move["who"], move["to_lane"]) == ("ada", "claimed")


def test_ready_are_the_planned_ones_that_wait_for_nothing(store, add, now):
    first, second = add(), add()
    third = add(depends_on=[first, second])
    assert ready(store, now) == [first, second]
    finish_task(store, first, Holder("human"), now)
    assert ready(store, now) == [second]
    finish_task(store, second, Holder("human"), now)
    assert ready(store, now) == [third]
    claim(store, third, "ada", now)
    assert ready(store, now) == []


def test_circles_are_refused_and_shown(store, add):
    a, b, c = add(task_id="A"), add(task_id="B"), add(task_id="C")
    task.link(store, b, [a])
    task.link(store, c, [b])
    with pytest.raises(UsageError, match="A → C → B → A") as caught:
        task.link(store, a, [c])
    assert caught.value.fix == ("treadle task link B --depends-on A --remove",)
    assert store.dependencies(a) == []
    with pytest.raises(UsageError, match="itself"):
        task.link(store, a, [a])


def test_a_link_can_be_made_twice_and_taken_away_once(store, add):
    a, b = add(), add()
    task.link(store, b, [a, a])
    task.unlink(store, b, [a])
    assert store.dependencies(b) == []
    with pytest.raises(UsageError, match=f"{b} does not depend on {a}"):
        task.unlink(store, b, [a])


def test_a_link_to_an_unknown_task_is_refused(store, add):
    with pytest.raises(NotFoundError, match="there is no task NOPE"):
        task.link(store, add(), ["NOPE"])
