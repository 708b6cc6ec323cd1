"""Files say what a mission's tasks are, the store says where they stand."""

import os
from datetime import UTC, datetime

import pytest

from tests.missions.conftest import write_task
from treadle.errors import FormatError, NotFoundError
from treadle.ids import is_task_id
from treadle.layout import Layout
from treadle.missions import mission as missions
from treadle.missions import taskfile
from treadle.project import setup
from treadle.store.store import Store
from treadle.tasks import claim, task
from treadle.tasks.claim import Holder
from treadle.tasks.task import NewTask

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(mission):
    setup.init(mission.root, os.environ)
    with Store.open(Layout(mission.root)) as store:
        yield store


def test_a_task_comes_with_all_it_needs_and_no_more(store, mission):
    write_task(mission, "WP01.md", "lane: done\n")
    write_task(mission, "WP02.md", "dependencies: [WP01]\n")
    write_task(mission, "WP03.md", "dependencies: [WP02]\n")
    write_task(mission, "WP04.md", "lane: nonsense\n")
    assert taskfile.resolve(Layout(mission.root), store, "wp02", None, NOW) == "auth.WP02"
    assert [(row.task_id, row.lane) for row in store.mission_lanes("auth")] == [
        ("auth.WP01", "done"),
        ("auth.WP02", "planned"),
    ]
    assert [row.task_id for row in store.dependencies("auth.WP02")] == ["auth.WP01"]


def test_an_edited_file_changes_the_task_but_not_its_lane(store, mission):
    write_task(mission, "WP01.md", "title: Old\n")
    write_task(mission, "WP02.md", "dependencies: [WP01]\n")
    taskfile.adopt(store, mission, ["WP02"], NOW)
    other = task.add(store, NewTask(goal="plain", criteria=()), NOW).task_id
    task.link(store, "auth.WP02", [other])
    claim.move_task(store, "auth.WP01", "claimed", Holder("ann"), NOW)
    write_task(mission, "WP01.md", "title: New\nlane: done\n")
    write_task(mission, "WP02.md", "dependencies: []\n")
    taskfile.adopt(store, mission, ["WP01", "WP02"], NOW)
    row = store.task("auth.WP01")
    assert (row.goal, row.lane, row.owner, row.source) == (
        "New",
        "claimed",
        "ann",
        "missions/auth/tasks/WP01.md",
    )
    assert [row.task_id for row in store.dependencies("auth.WP02")] == [other]


def test_plain_ids_are_left_alone(store, mission):
    assert taskfile.resolve(Layout(mission.root), store, "T-1", None, NOW) == "T-1"
    with pytest.raises(NotFoundError, match=r"there is no task auth\.WP09"):
        taskfile.resolve(Layout(mission.root), store, "auth.WP09", None, NOW)


def test_ids_may_begin_with_a_missions_number():
    assert is_task_id("001-log-in.WP01")
    assert not is_task_id("001-log-in")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_meta_that_is_no_file_is_told(mission, make):
    mission.files.meta.unlink()
    make(mission.files.meta)
    with pytest.raises(FormatError, match=r"meta.json must be a file"):
        missions.title(mission)


def test_a_file_where_tasks_should_be_is_told(store, mission):
    mission.files.tasks.write_text("not a folder")
    with pytest.raises(FormatError, match="must be a folder"):
        taskfile.resolve(Layout(mission.root), store, "WP01", "auth", NOW)
