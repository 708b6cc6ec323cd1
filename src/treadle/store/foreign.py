"""Read the database of another system, from a copy: the original is never opened."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from treadle.errors import NotFoundError, StoreError
from treadle.files import beneath

_INNER = ("steps", "events", "kv_run")
_OWN = ("runs", *_INNER, "schema_migrations")
_LONGEST = 16 << 20  # bytes of one value


class ForeignRun(NamedTuple):
    """A run of norma: its row and the rows that belong to it."""

    run_id: str
    goal: str
    status: str
    row: dict[str, Any]
    steps: list[dict[str, Any]]
    events: list[dict[str, Any]]
    kv: list[dict[str, Any]]


def read_norma(root: Path, name: str) -> tuple[list[ForeignRun], list[str]]:
    """Return every run in the order they began, and the names of tables that are none of norma's.

    StoreError if the database cannot be read.

    Whoever made it may want us to follow a link, or to compute for ever: only tables are read.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            for ending in ("", "-wal"):
                if os.path.lexists(root / f"{name}{ending}"):
                    _copy(root, f"{name}{ending}", Path(folder, f"copy.db{ending}"))
            with closing(sqlite3.connect(Path(folder, "copy.db"))) as database:
                database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
                database.row_factory = sqlite3.Row
                named = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                known = {str(table) for (table,) in named}
                others = (name for name in known if not name.startswith("sqlite_"))
                return _runs(database, known), sorted(set(others).difference(_OWN))
        except (sqlite3.Error, NotFoundError, OSError, IndexError, KeyError) as error:
            raise StoreError(f"{name} cannot be read ({error})") from error


def _copy(root: Path, name: str, target: Path) -> None:
    with beneath.opened(root, name) as source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy)


def _runs(database: sqlite3.Connection, known: set[str]) -> list[ForeignRun]:
    if "runs" not in known:
        raise KeyError("runs")
    rows = [dict(row) for row in database.execute("SELECT * FROM runs ORDER BY created_at, run_id")]
    if told := " UNION ".join(f"SELECT run_id FROM {name}" for name in _INNER if name in known):
        lost = database.execute(f"SELECT * FROM ({told}) EXCEPT SELECT run_id FROM runs")
        rows += [{"run_id": run_id, "goal": "", "status": "lost"} for (run_id,) in lost.fetchall()]

    def of(table: str, run_id: str) -> list[dict[str, Any]]:
        if table not in known:
            return []
        found = database.execute(f"SELECT * FROM {table} WHERE run_id = ? ORDER BY 2", (run_id,))
        return [dict(row) for row in found]

    return [
        ForeignRun(
            str(row["run_id"]),
            str(row["goal"]),
            str(row["status"]),
            row,
            *(of(table, row["run_id"]) for table in _INNER),
        )
        for row in rows
    ]
