"""The tables are the contract's, and records are their rows."""

from datetime import UTC, datetime

import pytest

from tests.store.rows import RUN, check_row, only_sqlite, run_row
from treadle.store import address
from treadle.store.runs import History, UsageRow
from treadle.store.transaction import COLUMNS

CONTRACT = {
    "schema_migrations": ["version INTEGER pk", "applied_at TEXT NOT NULL"],
    "runs": [
        "run_id TEXT pk",
        "created_at TEXT NOT NULL",
        "goal TEXT NOT NULL",
        "status TEXT NOT NULL",
        "iteration INTEGER NOT NULL DEFAULT 0",
        "current_step_index INTEGER NOT NULL DEFAULT 0",
        "verdict TEXT",
        "run_dir TEXT NOT NULL",
    ],
    "steps": [
        "run_id TEXT NOT NULL pk",
        "step_index INTEGER NOT NULL pk",
        "role TEXT NOT NULL",
        "iteration INTEGER NOT NULL",
        "status TEXT NOT NULL",
        "step_dir TEXT NOT NULL",
        "started_at TEXT NOT NULL",
        "ended_at TEXT",
        "summary TEXT",
    ],
    "events": [
        "run_id TEXT NOT NULL pk",
        "seq INTEGER NOT NULL pk",
        "ts TEXT NOT NULL",
        "type TEXT NOT NULL",
        "message TEXT NOT NULL",
        "data_json TEXT",
    ],
    "kv_run": ["run_id TEXT NOT NULL pk", "key TEXT NOT NULL pk", "value_json TEXT NOT NULL"],
}


@pytest.fixture(scope="module")
def schema():
    """Return an empty database with every table."""
    connection = address.open_empty()
    yield connection
    connection.close()


@pytest.mark.parametrize("table", CONTRACT)
def test_the_contracts_columns_come_first_and_exactly(schema, table):
    described = [_describe(row) for row in schema.execute(f"PRAGMA table_info({table})")]
    assert described[: len(CONTRACT[table])] == CONTRACT[table]
    extra = described[len(CONTRACT[table]) :]
    assert not extra or table in ("runs", "steps")


@pytest.mark.parametrize(
    "table", [name.removesuffix("_values") for name in COLUMNS if "_values" in name]
)
def test_records_have_the_columns_of_their_table_in_order(schema, table):
    columns = [row[1] for row in schema.execute(f"PRAGMA table_info({table})")]
    assert columns == [
        *(["run_id"] if table == "events" else []),
        *COLUMNS[table].split(", "),
    ]


@pytest.mark.parametrize("table", ["steps", "events", "kv_run", "usage", "checks", "questions"])
def test_whatever_belongs_to_a_run_goes_with_it(schema, table):
    keys = schema.execute(f"PRAGMA foreign_key_list({table})")
    assert [(key[2], key[3], key[6]) for key in keys] == [("runs", "run_id", "CASCADE")]


@only_sqlite
def test_the_writer_has_the_contracts_pragmas(store):
    pragmas = ("foreign_keys", "journal_mode", "busy_timeout", "synchronous")
    values = [_query(store, f"PRAGMA {name}")[0][0] for name in pragmas]
    assert values == [1, "wal", 5000, 2]
    assert store.journal_mode == "wal"


@only_sqlite
def test_only_what_may_be_lost_does_not_wait_for_the_disk(store):
    store.insert_run(run_row(), (), {})
    seen = [_query(store, "PRAGMA synchronous")[0][0]]
    store.release(RUN, 1)
    seen += _query(store, "PRAGMA synchronous")[0]
    store.request_stop(RUN, "why", datetime.now(UTC))
    assert [*seen, _query(store, "PRAGMA synchronous")[0][0]] == [2, 1, 2]


def test_deleting_a_run_leaves_nothing_behind(store):
    store.insert_run(run_row(), (), {"a": 1})
    usage = UsageRow(RUN, 1, "night", "m", 1, 2, 3, 0.5, 9.0)
    store.restore(run_row(), History(kv={"b": 2}, usage=(usage,), checks=(check_row(),)))
    assert store.delete_run(RUN)
    tables = ("steps", "events", "kv_run", "usage", "checks")
    assert [_query(store, f"SELECT count(*) FROM {table}")[0][0] for table in tables] == [0] * 5


def _query(store, sql):
    return store._transactions.writer.connection.execute(sql).fetchall()


def _describe(row):
    _, name, type_, not_null, default, key = row
    words = [name, type_]
    words += ["NOT NULL"] if not_null else []
    words += [f"DEFAULT {default}"] if default is not None else []
    return " ".join([*words, *(["pk"] if key else [])])
