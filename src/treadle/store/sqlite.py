"""Open SQLite the way treadle uses it; whatever PostgreSQL does differently is in `postgres`."""

import fcntl
import os
import sqlite3
import time
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from treadle.errors import StoreError
from treadle.store.transaction import closed_on_error

BUSY_TIMEOUT = 5.0
BEGIN = "BEGIN IMMEDIATE"

# Between two looks of someone who waits.
_PAUSE = 0.05
# RETURNING and upserts as the queries use them.
_OLDEST = (3, 35, 0)
# What means itself in the name of a file inside a URI.
_PLAIN = b"/-._0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_REPAIR = ("treadle doctor --repair",)


class WriteLock:
    """A file that is locked around every write transaction and checkpoint.

    SQLite's own waiting sleeps and retries, so a busy neighbour can starve a process until it
    gives up; a blocking flock queues. It also keeps two checkpoints apart.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._explain(error) from error

    def __enter__(self) -> Self:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError as error:
            raise self._explain(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the file back; nobody holds it after that."""
        os.close(self._fd)

    def _explain(self, error: OSError) -> StoreError:
        return StoreError(f"{self._path}: cannot be locked ({error.strerror}); nothing was saved")


class SqliteWriter:
    """The connection that writes, and the file that lets processes take turns."""

    def __init__(self, connection: sqlite3.Connection, lock: WriteLock) -> None:
        self.connection = connection
        self.mode = ""
        self._lock = lock
        self._lasting = True

    def __enter__(self) -> Self:
        self._lock.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.__exit__(kind, error, trace)

    def begin(self, *, alone: bool, lasting: bool = True) -> None:
        """Begin a transaction; SQLite has one writer at a time in any case."""
        if lasting is not self._lasting and self.mode == "wal":
            self.connection.execute(f"PRAGMA synchronous={'FULL' if lasting else 'NORMAL'}")
            self._lasting = lasting
        self.connection.execute(BEGIN)

    def commit(self) -> None:
        """Make the transaction durable."""
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """Take the transaction back, if one is open."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close under the lock, because the last connection to leave checkpoints."""
        with self._lock:
            self.connection.close()
        self._lock.close()


class SqliteWaker:
    """One connection that is asked for the database's version, again and again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._seen: tuple[int, int] | None = None

    def wait(self, timeout: float) -> bool:
        """Look until the store is another one or has other content than at the last call."""
        end = time.monotonic() + timeout
        while (found := self._look()) == self._seen:
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_PAUSE, left))
        self._seen = found
        return True

    def fileno(self) -> None:
        """Nobody calls: the file has to be looked at."""

    def close(self) -> None:
        """Give the connection back."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def _look(self) -> tuple[int, int] | None:
        try:
            place = self._path.stat().st_ino
            if self._connection is None or self._seen is None or self._seen[0] != place:
                self.close()
                self._connection = open_reader(self._path)
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except (OSError, sqlite3.Error, StoreError):
            self.close()
            return None
        return place, int(version)


class Sqlite:
    """A project's database in a file."""

    error = sqlite3.Error
    moment = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

    def __init__(self, path: Path, lock: Path) -> None:
        self.path = path
        self.name = str(path)
        self._lock = lock

    def explain(self, error: Exception) -> StoreError:
        """Turn what SQLite says into a sentence that helps."""
        return explain(error, self.path)

    def passes(self, error: Exception) -> bool:
        """Nobody is ever in the way: SQLite has one writer at a time."""
        return False

    def exists(self) -> bool:
        """Tell whether there is a file."""
        return self.path.exists()

    def open_reader(self) -> sqlite3.Connection:
        """Open the database for reading only; one that does not exist has no tables."""
        return open_reader(self.path) if self.path.exists() else open_empty()

    def open_writer(self) -> SqliteWriter:
        """Open or create the database."""
        _check_version()
        lock = WriteLock(self._lock)
        with closed_on_error(lock), lock:
            writer = SqliteWriter(_connect(self.path, "mode=rwc"), lock)
            with closed_on_error(writer.connection):
                writer.mode = _set_up(writer.connection)
        return writer

    def version(self, connection: Any) -> int:
        """Return the schema version; 0 means it was never set up."""
        try:
            found = connection.execute("SELECT max(version) FROM schema_migrations").fetchone()[0]
        except sqlite3.OperationalError as error:
            if _is_missing_table(error):
                return 0
            raise
        return int(found or 0)

    def migrating(self, connection: Any) -> AbstractContextManager[object]:
        """Do nothing: whoever migrates has the lock."""
        return nullcontext()

    def run_script(self, connection: Any, script: str) -> None:
        """Carry out a migration in one transaction."""
        try:
            connection.executescript(f"{BEGIN};\n{script}\nCOMMIT;")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def open_waker(self) -> SqliteWaker:
        """Return what looks at the file's version."""
        return SqliteWaker(self.path)

    def now(self) -> datetime:
        """Return this machine's time: whoever shares the file shares the clock."""
        return datetime.now(UTC)


MEMORY = Sqlite(Path(":memory:"), Path(":memory:"))


def open_reader(database: Path) -> sqlite3.Connection:
    """Open an existing database for reading only, even where nothing can be written."""
    if _would_lock_out_the_owner(database):
        return _open_unchanging(database)
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


def explain(error: Exception, database: Path) -> StoreError:
    """Turn what SQLite says into a sentence that helps."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        text, fix = _SENTENCES.get(code & 0xFF, (None, ()))
        if text:
            damaged = "store_damaged" if fix == _REPAIR else None
            return StoreError(f"{database}: {text}", code=damaged, fix=fix)
    return StoreError(f"{database}: {error}")


def _connect(database: Path, options: str) -> sqlite3.Connection:
    # Not `as_uri`, for which pathlib loads the parser of URLs.
    signs = os.fsencode(database.absolute())
    name = "".join(chr(sign) if sign in _PLAIN else f"%{sign:02x}" for sign in signs)
    try:
        return sqlite3.connect(
            f"file:{name}?{options}",
            uri=True,
            timeout=BUSY_TIMEOUT,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise explain(error, database) from error


def _set_up(connection: sqlite3.Connection) -> str:
    """Ask for durability and return the journal mode that the file system allows."""
    connection.execute("PRAGMA foreign_keys=ON")
    mode = _ask_for_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")
    # Without these macOS keeps a commit in the drive's cache; elsewhere they do nothing.
    connection.execute("PRAGMA fullfsync=ON")
    connection.execute("PRAGMA checkpoint_fullfsync=ON")
    return mode


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
    return _open_unchanging(database)


def _would_lock_out_the_owner(database: Path) -> bool:
    """Tell whether reading would leave files beside another user's database.

    SQLite gives them to whoever reads first, unless that is root, and the owner could not write
    them. While the owner has the database open they are there, and the owner's.
    """
    if os.geteuid() in (0, database.stat().st_uid):
        return False
    return not all(database.with_name(f"{database.name}{end}").exists() for end in ("-wal", "-shm"))


def _open_unchanging(database: Path) -> sqlite3.Connection:
    """Open a database as it is, without the files in which SQLite keeps changes."""
    log = database.with_name(f"{database.name}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreError(
            f"{log} holds changes that only someone who may write there can read; let the owner"
            f" run a command of treadle, or copy {database.parent} to a place of your own"
        )
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


def _is_missing_table(error: sqlite3.Error) -> bool:
    """Tell whether a query failed because its table is not there yet."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR


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
