"""A plan's list of tasks becomes files."""

import os
from datetime import UTC, datetime

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC
from tests.builder import git
from treadle.errors import BlockedError, FormatError
from treadle.layout import Layout
from treadle.missions import gates, scaffold, taskfile
from treadle.missions.scaffold import PlannedTask
from treadle.project import setup
from treadle.store.store import Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TASKS = """
## Tasks

- **WP01**: Keep tokens (files: src/auth.py, `tests/`)
  - Tests pass: `$ pytest -q`
  - It's documented
- [ ] Reject old: tokens (depends on: WP01; files: src/x.py)
* WP07 - Show a page
- [WP01: Title of the first task]

## Notes

- nothing
"""


@pytest.fixture
def store(mission):
    setup.init(mission.root, os.environ)
    with Store.open(Layout(mission.root)) as store:
        yield store


def write_plan(mission, text):
    mission.files.spec.write_text(REAL_SPEC)
    mission.files.plan.write_text(text)
    git(mission.root, "add", ".")
    git(mission.root, "commit", "-q", "-m", "Plan")


def test_the_list_is_read_with_ids_files_and_criteria():
    assert scaffold.read_tasks(TASKS) == [
        PlannedTask(
            "WP01",
            "Keep tokens",
            (),
            ("src/auth.py", "tests/"),
            (),
            ("Tests pass: `$ pytest -q`", "It's documented"),
        ),
        PlannedTask("WP02", "Reject old: tokens", ("WP01",), ("src/x.py",)),
        PlannedTask("WP07", "Show a page"),
    ]


@pytest.mark.parametrize(
    "said", ["FR-001, FR-002", "**FR-001**, `fr-002`", "Requirements: FR-001, fr-002"]
)
def test_an_item_with_nothing_but_requirements_names_them(said):
    plan = f"## Tasks\n\n### WP01: Log in\n\n- {said}\n- FR-001 is what it is about\n"
    (found,) = scaffold.read_tasks(plan)
    assert found.criteria == ("FR-001 is what it is about",)
    assert [it.upper() for it in found.requirements] == ["FR-001", "FR-002"]


def test_our_own_scaffold_lists_nothing():
    assert scaffold.read_tasks(gates.scaffold("plan")) == []


def test_written_files_read_back_and_hand_written_ones_stay(store, mission):
    write_plan(mission, REAL_PLAN + TASKS)
    mission.files.tasks.mkdir()
    (mission.files.tasks / "WP07-mine.md").write_text("# Mine\n")
    done = scaffold.write_tasks(store, mission, NOW)
    assert done.wrote == (
        "missions/auth/tasks/WP01-keep-tokens.md",
        "missions/auth/tasks/WP02-reject-old-tokens.md",
    )
    assert done.kept == ("missions/auth/tasks/WP07-mine.md",)
    found = taskfile.read_with_needed(mission, taskfile.task_names(mission))
    assert found["WP02"].title == "Reject old: tokens"
    assert (found["WP02"].dependencies, found["WP02"].owned_files) == (("WP01",), ("src/x.py",))
    assert [item.verify for item in found["WP01"].criteria] == ["pytest -q", None]
    assert found["WP07"].title == "Mine"
    assert [row.task_id for row in store.tasks()] == ["auth.WP01", "auth.WP02", "auth.WP07"]
    assert scaffold.write_tasks(store, mission, NOW).wrote == ()


def test_without_a_list_or_a_plan_nothing_is_written(store, mission):
    write_plan(mission, REAL_PLAN)
    with pytest.raises(BlockedError) as caught:
        scaffold.write_tasks(store, mission, NOW)
    assert caught.value.code == "no_tasks"
    write_plan(mission, "# Nothing\n")
    with pytest.raises(BlockedError, match=r"plan.md content is not substantive yet") as caught:
        scaffold.write_tasks(store, mission, NOW)
    assert caught.value.code == "gate_shut"


def test_a_task_without_an_id_takes_none_that_another_has():
    plan = "## Tasks\n- WP02: second\n- first come\n- WP04: fourth\n"
    assert [item.id for item in scaffold.read_tasks(plan)] == ["WP02", "WP03", "WP04"]


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        ("- WP01: a\n- WP01: b\n", "WP01 is there twice"),
        ("- WP01: a (depends on: WP09)\n", "depends on WP09"),
        ("- a (depends on: WP02)\n- b (depends on: WP01)\n", "WP01 → WP02 → WP01 is a circle"),
    ],
)
def test_a_list_that_cannot_be_writes_nothing(store, mission, tasks, why):
    write_plan(mission, f"{REAL_PLAN}\n## Tasks\n{tasks}")
    with pytest.raises(FormatError, match=why):
        scaffold.write_tasks(store, mission, NOW)
    assert not mission.files.tasks.exists()
