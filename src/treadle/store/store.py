"""Open a project's store, to read it or to change it too."""

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeVar

from treadle.layout import Layout, MailLayout
from treadle.store import address
from treadle.store.messages import MessageReader, MessageStore
from treadle.store.questions import QuestionReader, QuestionStore
from treadle.store.runs import RunReader, RunStore
from treadle.store.tasks import TaskReader, TaskStore
from treadle.store.transaction import (
    Connection,
    Database,
    InTransaction,
    Row,
    Transactions,
    Writer,
    sql,
)

T = TypeVar("T")

NO_MAIL = MailLayout(Path(os.devnull))


class Reader(RunReader, TaskReader, QuestionReader, MessageReader):
    """One connection that never waits for a writer and never writes."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._reading = connection
        self._database = database

    @classmethod
    def open(cls, layout: Layout, env: Mapping[str, str] = os.environ) -> Self:
        """Open the project's store, or an empty one if nothing was ever recorded."""
        return cls.at(address.find(layout, env))

    @classmethod
    def at(cls, database: Database) -> Self:
        """Open a store that may belong to no folder here."""
        return cls(address.open_reader(database), database)

    def now(self) -> datetime:
        """Return the time that leases go by: the database's own, where many machines share it."""
        return self._database.now()

    def close(self) -> None:
        """Give the connection back."""
        self._reading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def all(self, name: str, **values: object) -> list[Row]:
        """Return the rows that a query finds."""
        try:
            return self._reading.execute(sql(name), values).fetchall()
        except self._database.error as error:
            raise self._database.explain(error) from error


class Transaction(InTransaction, RunStore, TaskStore, QuestionStore, MessageStore):
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
