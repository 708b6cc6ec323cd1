"""Open a project's store with all its topics: every change is one durable transaction.

What many threads want is committed with one fsync: whoever comes first commits for all who
wait, and within the batch each change may fail alone.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Generic, Self, TypeVar

from treadle.errors import StoreError, TreadleError
from treadle.layout import Layout, MailLayout
from treadle.store import address
from treadle.store.address import OpenReader
from treadle.store.messages import MessageReader, MessageStore
from treadle.store.questions import QuestionStore, WorkReader
from treadle.store.runs import RunReader, RunStore
from treadle.store.task_changes import TaskHistory, TaskStore
from treadle.store.transaction import Connection, Database, InTransaction, Row, Writer

T = TypeVar("T")

NO_MAIL = MailLayout(Path(os.devnull))
# What a change can raise about its own values, beside what the database says: refusals, text or
# numbers too odd for a column. Anything else is a bug and ends the batch.
_OWN = (TreadleError, ValueError, OverflowError)
# How often a change is tried again that another process was in the way of.
_TRIES = 3


class Reader(OpenReader, WorkReader, TaskHistory, RunReader, MessageReader):
    """Read everything."""


class Transaction(InTransaction, WorkReader, RunStore, TaskStore, QuestionStore, MessageStore):
    """Everything that a store can do, as parts of one change."""


class Store(Reader, RunStore, TaskStore, QuestionStore, MessageStore):
    """Read and write everything; many threads may share one."""

    def __init__(
        self, connection: Connection, database: Database, writer: Writer, mail: MailLayout
    ) -> None:
        super().__init__(connection, database)
        self.journal_mode = writer.mode
        self.mail = mail
        self._transactions = Transactions(writer, database)
        self._turn = Lock()

    @classmethod
    def open(cls, layout: Layout, env: Mapping[str, str] = os.environ) -> Self:
        """Open the project's store, made or brought up to date if need be."""
        return cls.at(address.find(layout, env), layout.mail)

    @classmethod
    def at(cls, database: Database, mail: MailLayout = NO_MAIL) -> Self:
        """Open a store that may belong to no folder here, and then has no letters."""
        reading, writer = address.open_both(database)
        return cls(reading, database, writer, mail)

    def close(self) -> None:
        """Close both connections and the lock."""
        super().close()
        self._transactions.writer.close()

    def write(self, apply: Callable[[Any], T], *, alone: bool = True, lasting: bool = True) -> T:
        """Commit a change; one that need not last is safe from a kill, not from a power cut."""
        return self._transactions.run(
            lambda connection: apply(Transaction(connection)), alone=alone, lasting=lasting
        )

    def all(self, name: str, **values: object) -> list[Row]:
        """Return the rows that a query finds."""
        # Two threads reading at once would share the older one's snapshot, and the younger
        # might miss what it has just written.
        with self._turn:
            return super().all(name, **values)


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
