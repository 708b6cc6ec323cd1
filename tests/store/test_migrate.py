"""Databases come up to date in order, once, and never from the future."""

from contextlib import closing

import pytest

from tests.store.rows import child, output, run_row
from treadle.errors import StoreError
from treadle.store import address
from treadle.store.store import Reader, Store

NUMBERS = sorted(int(path.name[:4]) for path in address.FOLDER.iterdir())
NEXT = NUMBERS[-1] + 1
FURTHER = "ALTER TABLE runs ADD COLUMN mood TEXT;\n"
OPEN = """
    import sys
    from pathlib import Path
    from treadle.layout import Layout
    from treadle.store.store import Store
    Store.open(Layout(Path(sys.argv[1]))).close()
"""


@pytest.fixture
def newer_treadle(tmp_path, monkeypatch):
    """Pretend to be a treadle with one more migration."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    for path in address.FOLDER.iterdir():
        (folder / path.name).write_text(path.read_text())
    (folder / f"{NEXT:04}_mood.sql").write_text(FURTHER)

    def become():
        monkeypatch.setattr(address, "FOLDER", folder)
        address.latest.cache_clear()
        return folder

    yield become
    address.latest.cache_clear()


def ask(layout, sql):
    with closing(address.find(layout).open_reader()) as connection:
        return connection.execute(sql).fetchall()


def versions(layout):
    return [row[0] for row in ask(layout, "SELECT version FROM schema_migrations ORDER BY version")]


def test_a_new_database_is_at_the_latest_version(store, layout):
    assert versions(layout) == NUMBERS


def test_opening_again_applies_nothing(layout):
    for _ in range(2):
        Store.open(layout).close()
    assert versions(layout) == NUMBERS


def test_an_older_database_is_brought_up_to_date(layout, newer_treadle):
    with Store.open(layout) as store:
        store.insert_run(run_row(), (), {})
    newer_treadle()
    with Store.open(layout) as store:
        assert store.run(run_row().run_id) == run_row()
    assert versions(layout) == [*NUMBERS, NEXT]


def test_reading_an_older_database_brings_it_up_to_date(layout, newer_treadle):
    Store.open(layout).close()
    newer_treadle()
    with Reader.open(layout) as reader:
        assert reader.runs(limit=5) == []
    assert versions(layout) == [*NUMBERS, NEXT]


def test_a_migration_that_fails_leaves_the_database_as_it_was(layout, newer_treadle):
    Store.open(layout).close()
    (newer_treadle() / f"{NEXT:04}_mood.sql").write_text(
        FURTHER + "ALTER TABLE nothing ADD x TEXT;\n"
    )
    with pytest.raises(StoreError):
        Store.open(layout)
    with pytest.raises(address.find(layout).error, match="mood"):
        ask(layout, "SELECT mood FROM runs")
    assert versions(layout) == NUMBERS


@pytest.mark.parametrize("kind", [Reader, Store])
def test_a_database_of_a_newer_treadle_is_refused(layout, kind):
    with Store.open(layout) as store:
        store.write(
            lambda tx: tx.connection.execute(
                "INSERT INTO schema_migrations VALUES (?, 'later')", (NEXT,)
            )
        )
    with pytest.raises(StoreError, match=f"schema {NEXT} of a newer treadle") as caught:
        kind.open(layout)
    assert caught.value.fix == ("pip install --upgrade treadle",)


def test_many_processes_that_create_the_database_make_one(layout):
    for process in [child(OPEN, layout.root) for _ in range(8)]:
        output(process)
    assert versions(layout) == NUMBERS
