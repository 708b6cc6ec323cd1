"""What the store asks of a database; `sqlite` and `postgres` answer, each in its own way."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, Protocol

from treadle.errors import StoreError


class Result(Protocol):
    """What a statement gave: rows as tuples, or how many it changed."""

    @property
    def rowcount(self) -> int:
        """Return how many rows were changed."""

    @property
    def description(self) -> Any:
        """Return the columns of the rows, each with its name first."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""

    def __iter__(self) -> Iterator[Any]:
        """Go through the rows."""


class Connection(Protocol):
    """One line to a database; parameters are `:name` with a mapping or `?` with a sequence."""

    @property
    def in_transaction(self) -> bool:
        """Tell whether a transaction is open."""

    def execute(self, sql: str, values: Any = ..., /) -> Result:
        """Carry out one statement."""

    def executemany(self, sql: str, rows: Any, /) -> Result:
        """Carry out one statement for each row."""

    def close(self) -> None:
        """Leave."""


class Writer(AbstractContextManager[object], Protocol):
    """A connection that changes things; it is entered for a turn in which nobody disturbs."""

    @property
    def connection(self) -> Connection:
        """Return the line to the database."""

    @property
    def mode(self) -> str:
        """Say how the database keeps what is committed."""

    def begin(self, *, alone: bool, lasting: bool = True) -> None:
        """Begin a transaction; `alone` keeps all others of this project out until it ends.

        One that need not be `lasting` survives a kill, and may be lost with the power; if it need
        not be alone either, it is one statement.
        """

    def commit(self) -> None:
        """Make the transaction durable."""

    def rollback(self) -> None:
        """Take the transaction back, if one is open."""

    def close(self) -> None:
        """Leave."""


class Waker(Protocol):
    """Something that tells when others have committed."""

    def wait(self, timeout: float) -> bool:
        """Tell whether anything was committed since the last call; wait for it no longer."""

    def fileno(self) -> int | None:
        """Return what can be read when somebody has committed; None if one has to look."""

    def close(self) -> None:
        """Stop listening."""


class Database(Protocol):
    """One project's database, reached or not."""

    @property
    def name(self) -> str:
        """Return what messages call it; never a password."""

    @property
    def error(self) -> type[Exception]:
        """Return what its driver raises."""

    @property
    def moment(self) -> str:
        """Return an expression for the current time as text."""

    def explain(self, error: Exception) -> StoreError:
        """Turn what the driver says into a sentence that helps."""

    def passes(self, error: Exception) -> bool:
        """Tell whether another process was in the way, and need not be the next time."""

    def exists(self) -> bool:
        """Tell whether anything was ever recorded."""

    def open_reader(self) -> Connection:
        """Open it for reading only; what does not exist has no tables."""

    def open_writer(self) -> Writer:
        """Open or create, as it is; the caller brings it up to date."""

    def version(self, connection: Connection) -> int:
        """Return the schema version; 0 means it was never set up."""

    def migrating(self, connection: Connection) -> AbstractContextManager[object]:
        """Keep others from migrating too."""

    def run_script(self, connection: Connection, script: str) -> None:
        """Carry out a migration completely or not at all."""

    def open_waker(self) -> Waker:
        """Return what tells of changes."""

    def now(self) -> datetime:
        """Return the time that leases and beats go by."""


class Closable(Protocol):
    """Something that holds a file or a line open."""

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
