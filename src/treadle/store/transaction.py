"""Read and change the store: every change is one durable transaction.

What many threads want is committed with one fsync: whoever comes first commits for all who
wait, and within the batch each change may fail alone.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from treadle.errors import StoreError, TreadleError
from treadle.store.codec import SQL, Row
from treadle.store.database.interface import Connection, Database, Result, Writer

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
