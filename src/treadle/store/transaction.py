"""Read and change the store: every change is one durable transaction.

What many threads want is committed with one fsync: whoever comes first commits for all who
wait, and within the batch each change may fail alone.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from re import Pattern
from threading import Lock
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

from treadle.errors import StoreError, TreadleError

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W", bound="Writing")
R = TypeVar("R", bound=NamedTuple)
Row = Sequence[Any]

# What a change can raise about its own values, beside what the database says: refusals, text or
# numbers too odd for a column. Anything else is a bug and ends the batch.
_OWN = (TreadleError, ValueError, OverflowError)
# How often a change is tried again that another process was in the way of.
_TRIES = 3


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


class Connection(Protocol):
    """One line to a database; parameters are `:name` with a mapping or `?` with a sequence."""

    def execute(self, sql: str, values: Any = ..., /) -> Result:
        """Carry out one statement."""

    def executemany(self, sql: str, rows: Any, /) -> Result:
        """Carry out one statement for each row."""

    def close(self) -> None:
        """Leave."""


class Writer(Protocol):
    """A connection that changes things, in turns in which nobody disturbs.

    `mode` says how the database keeps what is committed.
    """

    mode: str

    @property
    def connection(self) -> Connection:
        """Return the line to the database."""

    @property
    def turn(self) -> AbstractContextManager[object]:
        """Return what is entered around transactions."""

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

    def close(self) -> None:
        """Stop listening."""


class Database(Protocol):
    """One project's database, reached or not; `sqlite` and `postgres` differ in what is here.

    Messages use its `name`, without a password. Its driver raises `error`, and `passing` if
    another process was in the way and need not be the next time. `types` says what the tables'
    definitions call otherwise.
    """

    name: str
    error: type[Exception]
    passing: tuple[type[Exception], ...] = ()
    types: Sequence[tuple[Pattern[str], str]] = ()

    def explain(self, error: Exception) -> StoreError:
        """Turn what the driver says into a sentence that helps."""

    def exists(self) -> bool:
        """Tell whether anything was ever recorded."""

    def open_reader(self) -> Connection:
        """Open it for reading only; what does not exist has no tables."""

    def open_writer(self) -> Writer:
        """Open or create, as it is; the caller brings it up to date."""

    def version(self, connection: Any) -> int:
        """Return the schema version; 0 means it was never set up."""

    def make_room(self, connection: Any) -> None:
        """Make the place for the first table."""

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


@contextmanager
def explained(database: Database) -> Iterator[None]:
    """Raise what the driver says as a sentence that helps."""
    try:
        yield
    except database.error as error:
        raise database.explain(error) from error


# Compact, with readable text; made once because making one costs more than using it.
to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

# In a query `{runs}` stands for the columns of that table's record, `{runs_values}` for one
# parameter each, `{runs_updates}` for an upsert's assignments.
COLUMNS: dict[str, str] = {}
_READ: dict[type, dict[str, Callable[[Any], object]]] = {}
# Most values are kept as they are.
_PLAIN = frozenset({str, int, float})
_AS_JSON = frozenset({"criteria", "actions", "look", "data", "run_ids"})


def kept_in(table: str, **read: Callable[[Any], object]) -> Callable[[type[R]], type[R]]:
    """Say which table holds a record: its fields are the columns, in order.

    `read` makes the values of fields that the database keeps otherwise: lists and objects are
    JSON text, truth is 0 or 1.
    """

    def mark(record: type[R]) -> type[R]:
        names = [f"{name}_json" if name in _AS_JSON else name for name in record._fields]
        COLUMNS[table] = ", ".join(names)
        COLUMNS[f"{table}_values"] = ", ".join("?" * len(names))
        COLUMNS[f"{table}_updates"] = ", ".join(f"{name} = excluded.{name}" for name in names)
        _READ[record] = read
        return record

    return mark


def read_queries(*paths: Path) -> dict[str, str]:
    """Return the named blocks of some files."""
    text = "\n".join(path.read_text("utf-8") for path in paths)
    blocks = (block.partition("\n") for block in text.split("-- name: ")[1:])
    return {name: text for name, _, text in blocks}


QUERIES = read_queries(*sorted(Path(__file__).with_name("queries").iterdir()))


@cache
def sql(name: str) -> str:
    """Return a query by its name, which it begins with: a database may have one of its own."""
    return filled(f"-- {name}\n{QUERIES[name]}")


def filled(query: str) -> str:
    """Return a query with the columns of its tables."""
    return query.format_map(COLUMNS).strip()


class Reading:
    """What the topics need to read: rows by the name of a query."""

    def all(self, name: str, **values: object) -> list[Row]:
        """Return the rows that a query finds."""
        raise NotImplementedError

    def one(self, name: str, **values: object) -> Row | None:
        """Return the first row that a query finds."""
        return next(iter(self.all(name, **values)), None)

    def records(self, record: type[R], name: str, **values: object) -> list[R]:
        """Return what a query finds, each row as a record."""
        found = [record._make(row) for row in self.all(name, **values)]
        read = _READ.get(record)
        return [_made(row, read) for row in found] if read else found

    def first(self, record: type[R], name: str, **values: object) -> R | None:
        """Return the first record that a query finds."""
        return next(iter(self.records(record, name, **values)), None)


class Writing(Reading):
    """What the topics need to change something: an open store, or a transaction of one."""

    def write(self, apply: Callable[[Any], T], *, alone: bool = True, lasting: bool = True) -> T:
        """Carry out a change on a transaction; all of it is saved, or nothing."""
        raise NotImplementedError

    def execute(self, name: str, values: Any) -> Result:
        """Carry out one named statement."""

        def apply(tx: InTransaction) -> Result:
            return tx.execute(name, values)

        return self.write(apply)

    def executemany(self, name: str, rows: Sequence[Any]) -> None:
        """Carry out one named statement for each row."""
        self.write(lambda tx: tx.executemany(name, rows))


class InTransaction(Writing):
    """The connection while it changes something: whatever is called on it belongs together."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def all(self, name: str, **values: object) -> list[Row]:
        """Return rows as they are within the transaction."""
        return self.connection.execute(sql(name), values).fetchall()

    def write(self, apply: Callable[[Any], T], *, alone: bool = True, lasting: bool = True) -> T:
        """Carry out a change as a part of this one."""
        return apply(self)

    def execute(self, name: str, values: Any) -> Result:
        """Carry out one named statement."""
        return self.connection.execute(sql(name), _stored(values))

    def executemany(self, name: str, rows: Sequence[Any]) -> None:
        """Carry out one named statement for each row."""
        if rows:
            self.connection.executemany(sql(name), [_stored(row) for row in rows])


def _made(row: R, read: Mapping[str, Callable[[Any], object]]) -> R:
    return row._replace(**{name: made(getattr(row, name)) for name, made in read.items()})


def _stored(values: dict[str, object] | Sequence[object]) -> Any:
    """Return the values of a statement as columns hold them."""
    if isinstance(values, dict):
        return dict(zip(values, _stored(list(values.values())), strict=True))
    return [it if it is None or type(it) in _PLAIN else _column(it) for it in values]


def _column(value: object) -> object:
    if isinstance(value, tuple | list | dict):
        return to_json(value)
    return int(value) if isinstance(value, bool) else value


def change(
    apply: Callable[Concatenate[W, P], T],
) -> Callable[Concatenate[W, P], T]:
    """Make a function or method one change: on a store it commits, in a transaction it joins."""

    def changed(store: W, /, *args: P.args, **values: P.kwargs) -> T:
        return store.write(lambda tx: apply(tx, *args, **values))

    return changed


class PendingChange(Generic[T]):
    """What one thread wants done, alone or not, to last or not, and what came of it."""

    def __init__(self, apply: Callable[[Connection], T], alone: bool, lasting: bool) -> None:
        self.apply = apply
        self.alone = alone
        self.lasting = lasting
        self.saved = False
        self.result: T | None = None
        self.error: Exception | None = None

    def outcome(self) -> T:
        """Return the result of a change that is durable, or raise why it is not."""
        if self.error is not None:
            raise self.error
        if not self.saved:
            raise StoreError("a change was interrupted before it was saved; repeat the command")
        return self.result  # type: ignore[return-value]  # a saved change has its result


class Transactions:
    """The one connection of this process that writes.

    One thread at a time leads: it commits all that waits, and the others find it done.
    """

    def __init__(self, writer: Writer, database: Database) -> None:
        self.writer = writer
        self._database = database
        self._leading = Lock()
        self._waiting: list[PendingChange[Any]] = []

    def run(self, apply: Callable[[Connection], T], *, alone: bool, lasting: bool) -> T:
        """Apply a change and return its result when it is durable."""
        change = PendingChange(apply, alone, lasting)
        self._waiting.append(change)
        try:
            with self._leading:
                if change in self._waiting:
                    self._lead()
        finally:
            with suppress(ValueError):  # it still waits if a signal came first
                self._waiting.remove(change)
        return change.outcome()

    def _lead(self) -> None:
        """Apply and commit; afterwards each change is saved or has its error."""
        batch = self._waiting[:]
        for change in batch:
            with suppress(ValueError):  # a signal may have taken it away
                self._waiting.remove(change)
        try:
            with self.writer.turn:
                self._commit_in_turn(batch)
        except (self._database.error, StoreError) as error:
            for change in batch:
                if not change.saved:
                    change.error = change.error or self._explained(error)

    def _commit_in_turn(self, batch: Sequence[PendingChange[Any]], tries: int = _TRIES) -> None:
        """Commit all at once; if one fails, each by itself, so that it fails by itself."""
        self.writer.begin(
            # Several changes lock their rows in any order, and so might others.
            alone=len(batch) > 1 or batch[0].alone,
            lasting=any(change.lasting for change in batch),
        )
        try:
            error = self._apply(batch)
            if error is None:
                self.writer.commit()
        finally:
            self.writer.rollback()
        if error is None:
            for change in batch:
                change.saved = True
        elif len(batch) > 1:
            for change in batch:
                self._commit_in_turn([change])
        elif tries and isinstance(error, self._database.passing):
            self._commit_in_turn(batch, tries - 1)
        else:
            batch[0].error = self._explained(error)

    def _apply(self, batch: Sequence[PendingChange[Any]]) -> Exception | None:
        try:
            for change in batch:
                change.result = change.apply(self.writer.connection)
        except (self._database.error, *_OWN) as error:
            return error
        return None

    def _explained(self, error: Exception) -> Exception:
        """Return what one thread is told; raising one object in many threads would garble it."""
        if isinstance(error, self._database.error):
            told = self._database.explain(error)
        elif isinstance(error, StoreError):
            told = StoreError(error.message, code=error.code, fix=error.fix)
        elif isinstance(error, TreadleError):
            return error
        else:
            told = StoreError(f"a value cannot be stored: {error}")
        told.__cause__ = error
        return told
