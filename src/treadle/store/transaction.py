"""Read and change the store: every change is one durable transaction.

What many threads want is committed with one fsync: whoever comes first commits for all who
wait, and within the batch each change may fail alone.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

from treadle.errors import StoreError, TreadleError


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


Row = Sequence[Any]
R = TypeVar("R", bound=NamedTuple)

# The fields of the record that each table holds, for the records that were loaded.
FIELDS: dict[str, tuple[str, ...]] = {}

_AS_JSON = frozenset({"criteria", "actions", "look", "data", "run_ids"})
_MARK = "-- name: "

# Compact, with readable text; made once because making one costs more than using it.
to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def kept_in(table: str) -> Callable[[type[R]], type[R]]:
    """Say which table holds a record: its fields are the columns, in order."""

    def mark(record: type[R]) -> type[R]:
        FIELDS[table] = record._fields
        return record

    return mark


def columns(fields: Sequence[str]) -> list[str]:
    """Return the columns that hold a record's fields."""
    return [f"{name}_json" if name in _AS_JSON else name for name in fields]


def values(record: NamedTuple) -> tuple[object, ...]:
    """Return a record as the values of its columns."""
    pairs = zip(record._fields, record, strict=True)
    return tuple(to_json(value) if name in _AS_JSON else value for name, value in pairs)


class Queries(Mapping[str, str]):
    """The named blocks of some files: a command asks for a few, so only these are filled."""

    def __init__(self, *paths: Path) -> None:
        text = "\n".join(path.read_text("utf-8") for path in paths)
        blocks = (block.partition("\n") for block in text.split(_MARK)[1:])
        self._blocks = {name: text for name, _, text in blocks}
        self._filled: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._filled:
            self._filled[name] = self._blocks[name].format_map(_COLUMNS).strip()
        return self._filled[name]

    def name_of(self, sql: str) -> str | None:
        """Return the name of a query that was asked for; None for any other text."""
        return next((name for name, text in self._filled.items() if text == sql), None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)


class _Columns(dict[str, str]):
    """What stands for the columns of a table, one parameter each, or an upsert's assignments."""

    def __missing__(self, key: str) -> str:
        table, is_values = key.removesuffix("_values"), key.endswith("_values")
        if is_values or table in FIELDS:
            names = columns(FIELDS[table])
            self[key] = ", ".join(["?"] * len(names) if is_values else names)
        else:
            names = columns(FIELDS[key.removesuffix("_updates")])
            self[key] = ", ".join(f"{name} = excluded.{name}" for name in names)
        return self[key]


_COLUMNS = _Columns()
SQL = Queries(*sorted(Path(__file__).with_name("queries").iterdir()))


P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W", bound="Writing")

# What a change can raise about its own values, beside what the database says: refusals, text or
# numbers too odd for a column. Anything else is a bug and ends the batch.
_OWN = (TreadleError, ValueError, OverflowError)
# How often a change is tried again that another process was in the way of.
_TRIES = 3


class Reading:
    """What the topics need to read: rows by the name of a query."""

    def all(self, name: str, **values: object) -> list[Row]:
        """Return the rows that a query finds."""
        raise NotImplementedError

    def one(self, name: str, **values: object) -> Row | None:
        """Return the first row that a query finds."""
        rows = self.all(name, **values)
        return rows[0] if rows else None

    def records(self, make: Callable[[Row], T], name: str, **values: object) -> list[T]:
        """Return what a query finds, each row as a record."""
        return [make(row) for row in self.all(name, **values)]

    def first(self, make: Callable[[Row], T], name: str, **values: object) -> T | None:
        """Return the first record that a query finds."""
        row = self.one(name, **values)
        return make(row) if row else None


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
        return self.connection.execute(SQL[name], values).fetchall()

    def write(self, apply: Callable[[Any], T], *, alone: bool = True, lasting: bool = True) -> T:
        """Carry out a change as a part of this one."""
        return apply(self)

    def execute(self, name: str, values: Any) -> Result:
        """Carry out one named statement."""
        return self.connection.execute(SQL[name], values)

    def executemany(self, name: str, rows: Sequence[Any]) -> None:
        """Carry out one named statement for each row."""
        if rows:
            self.connection.executemany(SQL[name], rows)


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
        self.settled = False
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


class Group:
    """Let one thread at a time lead: it commits all that waits, and the others find it done."""

    def __init__(self, commit: Callable[[Sequence[PendingChange[Any]]], None]) -> None:
        self._commit = commit
        self._guard = Lock()
        self._leading = Lock()
        self._waiting: list[PendingChange[Any]] = []

    def run(
        self, apply: Callable[[Connection], T], *, alone: bool = True, lasting: bool = True
    ) -> T:
        """Apply a change and return its result when it is durable."""
        change = PendingChange(apply, alone, lasting)
        with self._guard:
            self._waiting.append(change)
        try:
            with self._leading:
                if not change.settled:
                    self._lead()
        finally:
            with self._guard:
                if change in self._waiting:  # a signal came first
                    self._waiting.remove(change)
        return change.outcome()

    def _lead(self) -> None:
        with self._guard:
            batch, self._waiting = self._waiting, []
        try:
            self._commit(batch)
        finally:
            for change in batch:
                change.settled = True


class Transactions:
    """The one connection of this process that writes."""

    def __init__(self, writer: Writer, database: Database) -> None:
        self._writer = writer
        self._connection = writer.connection
        self._database = database
        self.mode = writer.mode

    def commit(self, batch: Sequence[PendingChange[Any]]) -> None:
        """Apply and commit; afterwards each change is saved or has its error."""
        try:
            with self._writer:
                self._commit_in_turn(batch)
        except self._database.error as error:
            _fail(batch, self._database.explain(error))
        except StoreError as error:
            _fail(batch, error)

    def close(self) -> None:
        """Give the connection back."""
        self._writer.close()

    def _commit_in_turn(self, batch: Sequence[PendingChange[Any]], tries: int = _TRIES) -> None:
        """Commit all at once; if one fails, each by itself, so that it fails by itself."""
        self._writer.begin(
            # Several changes lock their rows in any order, and so might others.
            alone=len(batch) > 1 or batch[0].alone,
            lasting=any(change.lasting for change in batch),
        )
        try:
            error = self._apply(batch)
            if error is None:
                self._writer.commit()
        finally:
            self._writer.rollback()
        if error is None:
            _mark_saved(batch)
        elif len(batch) > 1:
            for change in batch:
                self._commit_in_turn([change])
        elif tries and self._database.passes(error):
            self._commit_in_turn(batch, tries - 1)
        else:
            batch[0].error = self._own(error)

    def _apply(self, batch: Sequence[PendingChange[Any]]) -> Exception | None:
        try:
            for change in batch:
                change.result = change.apply(self._connection)
        except (self._database.error, *_OWN) as error:
            return error
        return None

    def _own(self, error: Exception) -> Exception:
        if isinstance(error, self._database.error):
            error = _because(self._database.explain(error), error)
        elif not isinstance(error, TreadleError):
            error = _because(StoreError(f"a value cannot be stored: {error}"), error)
        return error


def _mark_saved(batch: Sequence[PendingChange[Any]]) -> None:
    for change in batch:
        change.saved = True


def _because(error: StoreError, cause: Exception) -> StoreError:
    error.__cause__ = cause
    return error


def _fail(batch: Sequence[PendingChange[Any]], error: StoreError) -> None:
    """Give everyone an error of their own: raising one object in many threads garbles it."""
    for change in batch:
        if not change.saved:
            change.error = change.error or StoreError(error.message, code=error.code, fix=error.fix)
