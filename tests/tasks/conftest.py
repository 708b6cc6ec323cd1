"""Give each test a store and a way to add tasks."""

from datetime import UTC, datetime

import pytest

from treadle.ids import utc
from treadle.layout import Layout
from treadle.store.store import Store
from treadle.store.task_changes import TaskClaimRow
from treadle.store.tasks import TaskRow
from treadle.tasks import task
from treadle.tasks.task import Note, change_task, criteria_from_flags


@pytest.fixture
def now():
    """Return the moment the tests live in."""
    return datetime(2026, 1, 23, 15, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path):
    """Return the paths of an empty project."""
    return Layout(tmp_path / "project")


@pytest.fixture
def store(layout):
    """Return an open store."""
    with Store.open(layout) as opened:
        yield opened


@pytest.fixture
def add(store, now):
    """Add a task, said to be tested, in any lane and return its id."""

    def add_in(lane="planned", depends_on=(), **fields):
        asked = criteria_from_flags("goal", (), ())
        new = TaskRow(**{"task_id": "", "goal": "goal", "criteria": asked} | fields)
        added = task.add(store, new, now)
        task.link(store, added.task_id, depends_on)
        said = TaskClaimRow(added.task_id, "tests_passed", True, "qa", utc(now))
        store.claim_check(said)
        if lane != "planned":
            note = Note("test")
            change_task(store, added.task_id, lambda row: row._replace(lane=lane), note, now)
        return added.task_id

    return add_in
