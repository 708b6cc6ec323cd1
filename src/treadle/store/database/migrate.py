"""Open a database whose tables are those of this treadle, brought up to date if need be."""

import os
from pathlib import Path

from treadle.errors import StoreError
from treadle.store.database import sqlite
from treadle.store.database.interface import Connection, Database, Writer, closed_on_error

FOLDER = Path(__file__).parents[1] / "migrations"


def open_both(database: Database) -> tuple[Connection, Writer]:
    """Open a database, made or brought up to date if need be, for reading and for writing."""
    try:
        writer = _open_writer(database)
        with closed_on_error(writer):
            return database.open_reader(), writer
    except database.error as error:
        raise database.explain(error) from error


def open_reader(database: Database) -> Connection:
    """Open a database for reading; one that was never set up reads as an empty one."""
    try:
        return _open_reader(database)
    except database.error as error:
        raise database.explain(error) from error


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


def _open_writer(database: Database) -> Writer:
    writer = database.open_writer()
    with closed_on_error(writer), writer:
        found = database.version(writer.connection)
        check(found, database)
        if found < latest():
            apply(writer.connection, database)
    return writer


def _open_reader(database: Database) -> Connection:
    connection = database.open_reader()
    with closed_on_error(connection):
        found = database.version(connection)
        check(found, database)
    if found == latest():
        return connection
    connection.close()
    if found == 0:
        return _empty()
    _open_writer(database).close()
    return database.open_reader()


def _empty() -> Connection:
    connection = sqlite.open_empty()
    apply(connection)
    return connection


def _files() -> dict[int, Path]:
    return {_number(path.name): path for path in FOLDER.iterdir()}


def _number(name: str) -> int:
    return int(name.partition("_")[0])
