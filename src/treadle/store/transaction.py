"""What a topic of the store is written with: records, named queries, reading and changing."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from re import Pattern
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from treadle.errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W", bound="Writing")
R = TypeVar("R", bound=NamedTuple)
Row = Sequence[Any]


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

    def each(
        self, connection: Any, schemas: Sequence[str], version: int, *queries: str
    ) -> dict[str, list[list[Row]]]:
        """Ask all projects of that schema version the same; those it cannot ask are left out."""
        return {}

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
_AS_JSON = frozenset({"criteria", "actions", "look", "data", "run_ids", "observed", "tries"})


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


def as_records(record: type[R], rows: Sequence[Row]) -> list[R]:
    """Return each row as a record."""
    if read := _READ.get(record):
        places = [(record._fields.index(field), made) for field, made in read.items()]
        rows = [_made(row, places) for row in rows]
    return [record._make(row) for row in rows]


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
        return as_records(record, self.all(name, **values))

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


def _made(row: Row, places: Sequence[tuple[int, Callable[[Any], object]]]) -> Row:
    values = list(row)
    for at, made in places:
        values[at] = made(values[at])
    return values


def _stored(values: dict[str, object] | Sequence[object]) -> Any:
    """Return the values of a statement as columns hold them."""
    if isinstance(values, dict):
        return dict(zip(values, _stored(list(values.values())), strict=True))
    return [it if it is None or type(it) in _PLAIN else _column(it) for it in values]


def _column(value: object) -> object:
    if isinstance(value, tuple | list | dict):
        return to_json(value)
    return int(value) if isinstance(value, bool) else value


def change(apply: Callable[Concatenate[W, P], T]) -> Callable[Concatenate[W, P], T]:
    """Make a function or method one change: on a store it commits, in a transaction it joins."""

    def changed(store: W, /, *args: P.args, **values: P.kwargs) -> T:
        return store.write(lambda tx: apply(tx, *args, **values))

    return changed


def count_up(tx: Writing, name: str) -> int:
    """Return the next number of a counter, inside a transaction."""
    return int(tx.execute("count_up", {"name": name}).fetchone()[0])
