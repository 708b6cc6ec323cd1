"""Bring a database up to this treadle's schema, forward only, one transaction a file."""

import sqlite3
from pathlib import Path

from treadle.errors import StoreError
from treadle.layout import Layout
from treadle.store import sqlite
from treadle.store.lock import WriteLock

FOLDER = Path(__file__).with_name("migrations")


def latest() -> int:
    """Return the schema version this treadle knows."""
    return max(_files())


def version(connection: sqlite3.Connection) -> int:
    """Return a database's schema version; 0 means it was never set up."""
    try:
        found = connection.execute("SELECT max(version) FROM schema_migrations").fetchone()[0]
    except sqlite3.OperationalError as error:
        if sqlite.is_missing_table(error):
            return 0
        raise
    return int(found or 0)


def check(found: int, database: Path) -> None:
    """Refuse a database that a newer treadle has written."""
    if found > latest():
        raise StoreError(
            f"{database} has schema {found} of a newer treadle; this one knows {latest()}",
            code="store_newer",
            fix=["pip install --upgrade treadle"],
        )


def upgrade(layout: Layout) -> None:
    """Bring an older database up to date for someone who only wants to read it."""
    lock = WriteLock(layout.store_lock)
    with lock:
        connection = sqlite.open_writer(layout.database)
        sqlite.set_up(connection)
        apply(connection)
        connection.close()
    lock.close()


def apply(connection: sqlite3.Connection) -> None:
    """Apply what is missing; the caller holds the write lock."""
    have = version(connection)
    for number, path in sorted(_files().items()):
        if number > have:
            _apply_one(connection, number, path.read_text("utf-8"))


def _files() -> dict[int, Path]:
    return {int(path.name.partition("_")[0]): path for path in FOLDER.iterdir()}


def _apply_one(connection: sqlite3.Connection, number: int, script: str) -> None:
    mark = f"INSERT INTO schema_migrations VALUES ({number}, {sqlite.NOW});"
    try:
        connection.executescript(f"{sqlite.BEGIN};\n{script}\n{mark}\nCOMMIT;")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
