"""A task changes only for whoever has seen its latest state."""

import pytest

from tests.store.rows import T
from treadle.contract import Criterion
from treadle.store.task_changes import MoveRow
from treadle.store.tasks import TaskRow

TASK = TaskRow(
    task_id="T-9",
    goal="goal",
    text=None,
    criteria=(Criterion("AC1", "goal"),),
    lane="claimed",
    owner="ada",
    claim_id="c1",
    lease_until=T,
    mission=None,
    source=None,
    created_at=T,
    updated_at=T,
    position=0,
)
MOVE = MoveRow("T-9", 0, T, "ada", "claimed", "planned", "tired", False)


@pytest.fixture
def task(store):
    """Return a stored task."""
    return store.add_task(TASK)


@pytest.mark.parametrize(
    "change",
    [{"lane": "in_progress"}, {"claim_id": "c2"}, {"lease_until": "2026-02"}, {"claim_id": None}],
    ids=lambda change: next(iter(change)),
)
def test_a_swap_that_someone_got_ahead_of_changes_nothing(store, task, change):
    ahead = task._replace(**change)
    assert store.swap_task(task, ahead)
    assert not store.swap_task(task, task._replace(lane="planned"), MOVE)
    assert store.task("T-9") == ahead
    assert store.task_moves("T-9") == []


def test_moves_are_numbered_and_kept_with_the_swap(store, task):
    planned = task._replace(lane="planned", owner=None, claim_id=None, lease_until=None)
    assert store.swap_task(task, planned, MOVE)
    assert store.swap_task(planned, task, MOVE._replace(forced=True))
    assert store.task_moves("T-9") == [MOVE._replace(seq=1), MOVE._replace(seq=2, forced=True)]


def test_an_id_in_use_is_not_given_again(store, task):
    assert store.add_task(TASK._replace(goal="other")) is None
    assert store.task("T-9") == task


def test_a_circle_is_returned_and_not_made(store):
    for name in "ABC":
        store.add_task(TASK._replace(task_id=name))
    assert store.link_task("B", "A") == ()
    assert store.link_task("C", "B") == ()
    assert store.link_task("A", "C") == ("C", "B", "A")
    assert store.dependencies("A") == []
