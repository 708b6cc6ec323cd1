"""Bring a database up to this treadle's schema, forward only."""

import os
from pathlib import Path

from treadle.errors import StoreError
from treadle.store import sqlite
from treadle.store.backend import Connection, Database

FOLDER = Path(__file__).with_name("migrations")


def latest() -> int:
    """Return the schema version this treadle knows."""
    return max(_number(entry.name) for entry in os.scandir(FOLDER))


def check(found: int, database: Database) -> None:
    """Refuse a database that a newer treadle has written."""
    if found > latest():
        raise StoreError(
            f"{database.name} has schema {found} of a newer treadle; this one knows {latest()}",
            code="store_newer",
            fix=["pip install --upgrade treadle"],
        )


def apply(connection: Connection, database: Database = sqlite.MEMORY) -> None:
    """Apply what is missing, each in a transaction; the caller has its turn."""
    with database.migrating(connection):
        have = database.version(connection)
        for number, path in sorted(_files().items()):
            if number > have:
                mark = f"INSERT INTO schema_migrations VALUES ({number}, {database.moment});"
                database.run_script(connection, f"{path.read_text('utf-8')}\n{mark}")


def _files() -> dict[int, Path]:
    return {_number(path.name): path for path in FOLDER.iterdir()}


def _number(name: str) -> int:
    return int(name.partition("_")[0])
