"""Open SQLite the way treadle uses it; whatever PostgreSQL does differently is in `postgres`."""

import fcntl
import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from treadle.errors import StoreError, whom_to_ask
from treadle.store.transaction import Database, closed_on_error, explained

BUSY_TIMEOUT = 5.0

# Between two looks of someone who waits.
_PAUSE = 0.05
# RETURNING and upserts as the queries use them.
VERSION = sqlite3.sqlite_version_info
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

    def __exit__(self, *raised: object) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the file back; nobody holds it after that."""
        os.close(self._fd)

    def _explain(self, error: OSError) -> StoreError:
        text = f"{self._path}: cannot be locked ({error.strerror}); nothing was saved"
        is_denied = isinstance(error, PermissionError)
        return StoreError(f"{text}; {whom_to_ask(self._path)}" if is_denied else text)


class SqliteWriter:
    """The connection that writes; the file `turn` lets processes take turns."""

    def __init__(self, connection: sqlite3.Connection, turn: WriteLock) -> None:
        self.connection = connection
        self.turn = turn
        self.mode = ""
        self._lasting = True

    def begin(self, *, alone: bool, lasting: bool = True) -> None:
        """Begin a transaction; SQLite has one writer at a time in any case."""
        if lasting is not self._lasting and self.mode == "wal":
            self.connection.execute(f"PRAGMA synchronous={'FULL' if lasting else 'NORMAL'}")
            self._lasting = lasting
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make the transaction durable."""
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """Take the transaction back, if one is open."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close under the lock, because the last connection to leave checkpoints."""
        with self.turn:
            self.connection.close()
        self.turn.close()


class Sqlite(Database):
    """A project's database in a file."""

    error = sqlite3.Error

    def __init__(self, path: Path, lock: Path) -> None:
        self.path = path
        self.name = str(path)
        self._lock = lock

    def explain(self, error: Exception) -> StoreError:
        """Turn what SQLite says into a sentence that helps."""
        code = getattr(error, "sqlite_errorcode", 0)
        text, fix = _SENTENCES.get(code & 0xFF, (str(error), ()))
        if self.path.exists() and not os.access(self.path, os.R_OK):
            text = f"cannot be read; {whom_to_ask(self.path)}"
        damaged = "store_damaged" if fix == _REPAIR else None
        return StoreError(f"{self.path}: {text}", code=damaged, fix=fix)

    def exists(self) -> bool:
        """Tell whether there is a file."""
        return self.path.exists()

    def open_reader(self) -> sqlite3.Connection:
        """Open the database for reading only, even where nothing can be written."""
        if not self.path.exists():
            return open_empty()
        if _would_lock_out_the_owner(self.path):
            return self._open_unchanging()
        connection = self._connect("mode=ro")
        try:
            with closed_on_error(connection):
                _look_at(connection)
        except sqlite3.DatabaseError as error:
            return self._reopen(error)
        return connection

    def open_writer(self) -> SqliteWriter:
        """Open or create the database."""
        _check_version()
        lock = WriteLock(self._lock)
        with closed_on_error(lock), lock:
            writer = SqliteWriter(self._connect("mode=rwc"), lock)
            with closed_on_error(writer.connection):
                writer.mode = _set_up(writer.connection)
        return writer

    def version(self, connection: sqlite3.Connection) -> int:
        """Return the schema version; 0 means it was never set up."""
        try:
            found = connection.execute("SELECT max(version) FROM schema_migrations").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # there is no such table
                return 0
            raise
        return int(found or 0)

    def make_room(self, connection: sqlite3.Connection) -> None:
        """Do nothing: the file is the place."""

    def open_waker(self) -> "SqliteWaker":
        """Return what looks at the file's version."""
        return SqliteWaker(self)

    def now(self) -> datetime:
        """Return this machine's time: whoever shares the file shares the clock."""
        return datetime.now(UTC)

    def _connect(self, options: str) -> sqlite3.Connection:
        # Not `as_uri`, for which pathlib loads the parser of URLs.
        signs = os.fsencode(self.path.absolute())
        name = "".join(chr(sign) if sign in _PLAIN else f"%{sign:02x}" for sign in signs)
        with explained(self):
            return sqlite3.connect(
                f"file:{name}?{options}",
                uri=True,
                timeout=BUSY_TIMEOUT,
                isolation_level=None,
                check_same_thread=False,
            )

    def _reopen(self, error: sqlite3.DatabaseError) -> sqlite3.Connection:
        """Read what a plain read-only connection may not open."""
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
            # A writer was killed without a WAL: only one who may write can undo what it left.
            with explained(self), closing(self._connect("mode=rw")) as writing:
                _look_at(writing)
            return self._connect("mode=ro")
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN:
            raise self.explain(error) from error
        return self._open_unchanging()

    def _open_unchanging(self) -> sqlite3.Connection:
        """Open a database as it is, without the files in which SQLite keeps changes."""
        log = self.path.with_name(f"{self.path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"{log} holds changes that only someone who may write there can read; let the owner"
                f" run a command of treadle, or copy {self.path.parent} to a place of your own"
            )
        return self._connect("immutable=1")


class SqliteWaker:
    """One connection that is asked for the database's version, again and again."""

    def __init__(self, database: Sqlite) -> None:
        self._database = database
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

    def close(self) -> None:
        """Give the connection back."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def _look(self) -> tuple[int, int] | None:
        try:
            place = self._database.path.stat().st_ino
            if self._connection is None or self._seen is None or self._seen[0] != place:
                self.close()
                self._connection = self._database.open_reader()
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except (OSError, sqlite3.Error, StoreError):
            self.close()
            return None
        return place, int(version)


class StandIn(sqlite3.Connection):
    """A database in memory that stands for one that does not exist."""


def open_empty() -> StandIn:
    """Open a database in memory that stands for one that does not exist."""
    return sqlite3.connect(":memory:", isolation_level=None, factory=StandIn)


def _look_at(connection: sqlite3.Connection) -> None:
    """Let SQLite open the file, which it does when it is first asked something."""
    connection.execute("SELECT 1 FROM sqlite_master").close()


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


def _would_lock_out_the_owner(database: Path) -> bool:
    """Tell whether reading would leave files beside another user's database.

    SQLite gives them to whoever reads first, unless that is root, and the owner could not write
    them. While the owner has the database open they are there, and the owner's.
    """
    if os.geteuid() in (0, database.stat().st_uid):
        return False
    return not all(database.with_name(f"{database.name}{end}").exists() for end in ("-wal", "-shm"))


def _check_version() -> None:
    if VERSION < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; treadle needs {oldest}")


_SENTENCES: dict[int, tuple[str, tuple[str, ...]]] = {
    sqlite3.SQLITE_FULL: ("the disk is full, nothing was saved; free some space", ("df -h",)),
    sqlite3.SQLITE_READONLY: ("read-only, nothing was saved; make it writable", ()),
    # Also of a full one, if even a look at the store needs a page.
    sqlite3.SQLITE_IOERR: (
        "the disk is full or reports an error, nothing was saved",
        ("df -h", "treadle doctor"),
    ),
    sqlite3.SQLITE_CORRUPT: ("damaged; it can be rebuilt from the runs folder", _REPAIR),
    sqlite3.SQLITE_NOTADB: ("damaged; it can be rebuilt from the runs folder", _REPAIR),
    sqlite3.SQLITE_BUSY: ("locked by a program other than treadle; close it and repeat", ()),
    sqlite3.SQLITE_LOCKED: ("locked by a program other than treadle; close it and repeat", ()),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened; check its folder's permissions", ()),
    sqlite3.SQLITE_PERM: ("cannot be opened; check its permissions", ()),
}
