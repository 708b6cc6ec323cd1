"""Tasks described by files: ours, and whatever people write."""

import os
from datetime import UTC, datetime

import pytest

from tests.missions.conftest import write_task
from treadle.contract import Criterion
from treadle.errors import FormatError, NotFoundError
from treadle.ids import is_task_id
from treadle.layout import Layout
from treadle.missions import adopt, taskfile
from treadle.missions import mission as missions
from treadle.project import setup
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, task
from treadle.tasks.claim import Holder

HEAD = """work_package_id: WP01
title: "Log in: first part"
dependencies: [WP02, 'WP03']
owned_files:
- src/auth.py
- "tests/**"
requirement_refs: [FR-001, fr-002]
lane: doing
history:
- at: 2026-01-01
  by: someone
"""


def test_a_foreign_file_is_read_with_all_it_says(mission):
    body = "# Log in\n\n## Acceptance Criteria\n\n- Tests pass: `$ pytest -q`\n"
    found = taskfile.read_task(mission, write_task(mission, "WP01-log-in.md", HEAD, body).name)
    assert found[2:6] == ("Log in: first part", ("WP02", "WP03"), ("src/auth.py", "tests/**"),
                          "in_progress")  # fmt: skip
    assert found.criteria == (Criterion("AC1", "Tests pass", "pytest -q"),)
    assert found.requirement_refs == ("FR-001", "FR-002")
    assert found.text == body.strip()


def test_a_file_without_fields_takes_its_id_from_its_name(mission):
    found = taskfile.read_task(mission, write_task(mission, "WP07.md", body="# Log out\n").name)
    assert (found.id, found.title, found.lane) == ("WP07", "Log out", "planned")
    assert found.criteria == (Criterion("AC1", "Log out"),)


@pytest.mark.parametrize(
    ("name", "head", "words"),
    [
        ("WP01-x.md", "work_package_id: WP02\n", "work_package_id is WP02"),
        ("WP01-x.md", "lane: parked\n", "there is no lane 'parked'"),
        ("WP01-x.md", "dependencies: [T-1]\n", "'T-1' is not an id such as WP01"),
        ("WP01-x.md", "title: b\ntitle: c\n", "given twice"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(mission, name, head, words):
    path = write_task(mission, name, head)
    with pytest.raises(FormatError, match=r"missions/auth/tasks/WP01-x.md: .*") as caught:
        taskfile.read_task(mission, path.name)
    assert words in caught.value.message


def test_two_files_of_one_id_are_refused(mission):
    write_task(mission, "WP01-a.md")
    write_task(mission, "WP01-b.md")
    for name in taskfile.task_names(mission).values():
        with pytest.raises(FormatError, match=r"WP01-a.md and WP01-b.md have the same id"):
            taskfile.read_task(mission, name)


def test_tasks_are_in_order_and_other_files_are_none(mission):
    for name in ("WP10-b.md", "WP02-a.md", "README.md", "WP1.md", "WP100.md"):
        write_task(mission, name)
    assert list(taskfile.task_names(mission)) == ["WP02", "WP10", "WP100"]


def test_a_circle_is_told_as_a_way(mission):
    for number, needed in ((1, 3), (2, 1), (3, 2), (4, 1)):
        write_task(mission, f"WP0{number}.md", f"dependencies: [WP0{needed}]\n")
    with pytest.raises(FormatError, match="WP01 → WP03 → WP02 → WP01 is a circle") as caught:
        taskfile.read_with_needed(mission, taskfile.task_names(mission))
    assert caught.value.code == "task_cycle"


def test_an_unknown_dependency_is_told_with_the_nearest(mission):
    write_task(mission, "WP01.md")
    write_task(mission, "WP02.md", "dependencies: [WP10]\n")
    with pytest.raises(FormatError, match=r"WP02.md: it depends on WP10.*did you mean WP01"):
        taskfile.read_with_needed(mission, taskfile.task_names(mission))


def test_a_ladder_of_dependencies_is_no_circle():
    rungs = {f"WP{n:02}": [f"WP{n - 1:02}", f"WP{n - 2:02}"] for n in range(2, 60)}
    assert taskfile.find_circle(rungs) == ()


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
    assert adopt.resolve_task(Layout(mission.root), store, "wp02", None, NOW) == "auth.WP02"
    assert [(row.task_id, row.lane) for row in store.mission_tasks("auth")] == [
        ("auth.WP01", "done"),
        ("auth.WP02", "planned"),
    ]
    assert [row.task_id for row in store.dependencies("auth.WP02")] == ["auth.WP01"]


def test_an_edited_file_changes_the_task_but_not_its_lane(store, mission):
    write_task(mission, "WP01.md", "title: Old\n")
    write_task(mission, "WP02.md", "dependencies: [WP01]\n")
    adopt.adopt_tasks(store, mission, ["WP02"], NOW)
    other = task.add(store, TaskRow("", "plain"), NOW).task_id
    task.link(store, "auth.WP02", [other])
    claim.move_task(store, "auth.WP01", "claimed", Holder("ann"), NOW)
    write_task(mission, "WP01.md", "title: New\nlane: done\n")
    write_task(mission, "WP02.md", "dependencies: []\n")
    adopt.adopt_tasks(store, mission, ["WP01", "WP02"], NOW)
    row = store.task("auth.WP01")
    assert (row.goal, row.lane, row.owner, row.source) == (
        "New",
        "claimed",
        "ann",
        "missions/auth/tasks/WP01.md",
    )
    assert [row.task_id for row in store.dependencies("auth.WP02")] == [other]


def test_plain_ids_are_left_alone(store, mission):
    assert adopt.resolve_task(Layout(mission.root), store, "T-1", None, NOW) == "T-1"
    with pytest.raises(NotFoundError, match=r"there is no task auth\.WP09"):
        adopt.resolve_task(Layout(mission.root), store, "auth.WP09", None, NOW)


def test_ids_may_begin_with_a_missions_number():
    assert is_task_id("001-log-in.WP01")
    assert not is_task_id("001-log-in")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_meta_that_is_no_file_is_told(mission, make):
    mission.files.meta.unlink()
    make(mission.files.meta)
    with pytest.raises(FormatError, match=r"meta.json cannot be read: it must be a file"):
        missions.title(mission)


def test_a_file_where_tasks_should_be_is_told(store, mission):
    mission.files.tasks.write_text("not a folder")
    with pytest.raises(FormatError, match="must be a folder"):
        adopt.resolve_task(Layout(mission.root), store, "WP01", "auth", NOW)
