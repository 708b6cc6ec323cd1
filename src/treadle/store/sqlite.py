"""Open SQLite the way treadle uses it; whatever another database does differently is here."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from treadle.errors import StoreError

BUSY_TIMEOUT = 5.0
BEGIN = "BEGIN IMMEDIATE"
NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

# RETURNING and upserts as the queries use them.
_OLDEST = (3, 35, 0)
_REPAIR = ("treadle doctor --repair",)


class Closable(Protocol):
    """Something that holds a file open."""

    def close(self) -> None:
        """Let go of it."""


@contextmanager
def closed_on_error(resource: Closable) -> Iterator[None]:
    """Close what was just opened if the rest of the opening fails."""
    try:
        yield
    except BaseException:
        resource.close()
        raise


def open_writer(database: Path) -> sqlite3.Connection:
    """Open or create the database; the caller holds the write lock."""
    _check_version()
    return _connect(database, "mode=rwc")


def set_up(connection: sqlite3.Connection) -> str:
    """Ask for durability and return the journal mode that the file system allows."""
    connection.execute("PRAGMA foreign_keys=ON")
    mode = _ask_for_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")
    # Without these macOS keeps a commit in the drive's cache; elsewhere they do nothing.
    connection.execute("PRAGMA fullfsync=ON")
    connection.execute("PRAGMA checkpoint_fullfsync=ON")
    return mode


def open_reader(database: Path) -> sqlite3.Connection:
    """Open an existing database for reading only, even where nothing can be written."""
    connection = _connect(database, "mode=ro")
    try:
        with closed_on_error(connection):
            connection.execute("SELECT 1 FROM sqlite_master").close()
    except sqlite3.DatabaseError as error:
        return _reopen(database, error)
    return connection


def open_empty() -> sqlite3.Connection:
    """Open a database in memory that stands for one that does not exist."""
    return sqlite3.connect(":memory:", isolation_level=None)


def explain(error: sqlite3.Error, database: Path) -> StoreError:
    """Turn what SQLite says into a sentence that helps."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        text, fix = _SENTENCES.get(code & 0xFF, (None, ()))
        if text:
            damaged = "store_damaged" if fix == _REPAIR else None
            return StoreError(f"{database}: {text}", code=damaged, fix=fix)
    return StoreError(f"{database}: {error}")


def is_missing_table(error: sqlite3.Error) -> bool:
    """Tell whether a query failed because its table is not there yet."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR


def _connect(database: Path, options: str) -> sqlite3.Connection:
    uri = f"{database.absolute().as_uri()}?{options}"
    try:
        return sqlite3.connect(
            uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise explain(error, database) from error


def _ask_for_wal(connection: sqlite3.Connection) -> str:
    try:
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    except sqlite3.OperationalError:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return str(mode)


def _reopen(database: Path, error: sqlite3.DatabaseError) -> sqlite3.Connection:
    """Read what a plain read-only connection may not open."""
    if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
        _roll_back(database)
        return _connect(database, "mode=ro")
    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN:
        raise explain(error, database) from error
    log = database.with_name(f"{database.name}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreError(
            f"{log} holds changes that cannot be read where nothing can be written; "
            f"copy {database.parent} to a writable place"
        ) from error
    return _connect(database, "immutable=1")


def _roll_back(database: Path) -> None:
    """Let SQLite undo what a killed writer left half written, when there is no WAL."""
    connection = _connect(database, "mode=rw")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").close()
    except sqlite3.Error as error:
        raise explain(error, database) from error
    finally:
        connection.close()


def _check_version() -> None:
    if sqlite3.sqlite_version_info < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; treadle needs {oldest}")


_SENTENCES: dict[int, tuple[str, tuple[str, ...]]] = {
    sqlite3.SQLITE_FULL: ("the disk is full, nothing was saved; free some space", ()),
    sqlite3.SQLITE_READONLY: ("read-only, nothing was saved; make it writable", ()),
    sqlite3.SQLITE_IOERR: ("the disk reports an error, nothing was saved", ("treadle doctor",)),
    sqlite3.SQLITE_CORRUPT: ("damaged; it can be rebuilt from the runs folder", _REPAIR),
    sqlite3.SQLITE_NOTADB: ("damaged; it can be rebuilt from the runs folder", _REPAIR),
    sqlite3.SQLITE_BUSY: ("locked by a program other than treadle; close it and repeat", ()),
    sqlite3.SQLITE_LOCKED: ("locked by a program other than treadle; close it and repeat", ()),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened; check its folder's permissions", ()),
    sqlite3.SQLITE_PERM: ("cannot be opened; check its permissions", ()),
}
