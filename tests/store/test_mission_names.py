"""A mission that gets another name keeps every row that bore the old one."""

from tests.store.rows import only_sqlite
from treadle.store import address
from treadle.store.store import Store
from treadle.store.tasks import MissionStepRow, TaskRow

# What has a task's id and is not about tasks that have a name to lose.
APART = {"mission_work.task"}


def task(name: str) -> TaskRow:
    mission = name.partition(".")[0]
    return TaskRow(name, "goal", mission=mission, created_at="1", updated_at="2")


def test_a_name_is_taken_over_with_everything(store):
    store.name_mission("X", "old")
    store.adopt_tasks([task("old.WP01"), task("old.WP02")], [("old.WP02", "old.WP01")])
    store.report_step(MissionStepRow("old", "WP01", 2, False, "why", "ann", "now"))
    assert store.name_mission("X", "new") == [
        ("old.WP01", "new.WP01"),
        ("old.WP02", "new.WP02"),
    ]
    assert store.task("old.WP01") is None
    assert [row.task_id for row in store.mission_tasks("new")] == ["new.WP01", "new.WP02"]
    assert [row.task_id for row in store.dependencies("new.WP02")] == ["new.WP01"]
    assert [row.note for row in store.mission_steps("new")] == ["why"]
    assert store.name_mission("X", "new") == []


def test_whoever_had_the_name_is_put_aside_and_comes_back(store):
    store.name_mission("X", "a")
    store.adopt_tasks([task("a.WP01")], [])
    store.name_mission("Y", "a")
    assert store.mission_tasks("a") == []
    store.adopt_tasks([task("a.WP01")._replace(lane="done")], [])
    store.name_mission("X", "b")
    assert [row.lane for row in store.mission_tasks("b")] == ["planned"]
    assert [row.lane for row in store.mission_tasks("a")] == ["done"]


def test_rows_of_a_mission_without_an_id_become_the_first_ones(store):
    store.adopt_tasks([task("a.WP01")], [])
    assert store.name_mission("X", "a") == []
    assert [row.task_id for row in store.mission_tasks("a")] == ["a.WP01"]
    assert store.mission_names() == {"X": "a"}


@only_sqlite
def test_every_table_that_names_a_task_or_a_mission_is_renamed(store: Store):
    connection = address.open_empty()
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    found = {
        f"{table}.{column[1]}"
        for table in tables
        for column in connection.execute(f"PRAGMA table_info({table})")
        if column[1] in ("task_id", "mission", "depends_on", "task")
    }
    assert found - APART == {
        *("tasks.task_id", "tasks.mission", "task_deps.task_id", "task_deps.depends_on"),
        *("task_moves.task_id", "runs.task_id", "task_claims.task_id", "reservations.task_id"),
        *("mail_index.task_id", "questions.task_id", "task_files.task_id"),
        *("mission_steps.mission", "mission_work.mission", "mission_agents.mission"),
    }
    connection.close()
