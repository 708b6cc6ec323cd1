"""A copied store holds what the first one held, or nothing."""

from contextlib import closing

import pytest

from tests.store.rows import RUN, check_row, commit, event, only_sqlite, run_row, step_row
from tests.store.test_task_changes import MOVE, TASK
from treadle.errors import StoreError
from treadle.store import address, copy
from treadle.store.runs import History, UsageRow
from treadle.store.store import Reader, Store

USAGE = UsageRow(RUN, 1, "night", "gpt", 100, 50, 20, 0.1, 3.5)


@pytest.fixture
def full(store, layout):
    """Return the database of a store with something in many tables."""
    store.insert_run(run_row(), (event(1, text="Grüße"),), {"spent": {"tokens": 0}})
    commit(store)
    checks = (check_row(passed=False),)
    other = run_row("20260123-145501-000000")
    store.restore(other, History(usage=(USAGE._replace(run_id=other.run_id),), checks=checks))
    task = store.add_task(TASK)
    store.add_task(TASK._replace(task_id="T-10"))
    store.link_task("T-10", "T-9")
    assert store.swap_task(task, task._replace(lane="planned"), MOVE)
    return address.find(layout)


@pytest.fixture
def empty(tmp_path):
    return address.at(f"sqlite:{tmp_path / 'new' / 'treadle.db'}", "unused")


def contents(database):
    reader = database.open_reader()
    found = {
        name: sorted(map(repr, reader.execute(f"SELECT * FROM {name}").fetchall()))
        for name in copy.tables()
    }
    reader.close()
    return found


def test_every_row_of_every_table_arrives(full, empty):
    rows = copy.copy(full, empty)
    assert contents(empty) == contents(full)
    assert {name: len(found) for name, found in contents(full).items()} == rows
    assert rows["steps"] == 1
    with Reader.at(empty) as reader:
        assert reader.steps(RUN) == [step_row()]


@pytest.mark.real
def test_a_store_goes_to_postgresql_and_back(full, empty, pg_server, pg_store):
    server = address.at(pg_server, pg_store)
    if full.name == server.name:
        server = address.at(pg_server, f"{pg_store}_b")
    copy.copy(full, server)
    copy.copy(server, empty)
    assert contents(empty) == contents(full)
    with Store.at(empty) as store:
        assert store.reserve_task_id() == "T-1"


def test_a_store_that_holds_something_is_left_alone(full, empty):
    copy.copy(full, empty)
    before = contents(empty)
    with pytest.raises(StoreError, match="already holds something") as caught:
        copy.copy(full, empty)
    assert (caught.value.code, caught.value.fix) == (
        "store_not_empty",
        ("treadle store copy --help",),
    )
    assert contents(empty) == before


def test_what_arrives_otherwise_is_taken_back(full, empty, monkeypatch):
    seen = []

    def count(rows):
        seen.append(1)
        return len(seen)

    monkeypatch.setattr(copy, "Counter", count)
    with pytest.raises(StoreError, match="was not copied faithfully"):
        copy.copy(full, empty)
    assert not any(contents(empty).values())


@only_sqlite
def test_no_table_is_forgotten(full):
    with closing(full.open_reader()) as reader:
        found = reader.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert {name for (name,) in found} == {*copy.tables(), "schema_migrations"}
