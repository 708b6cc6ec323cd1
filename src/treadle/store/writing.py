"""A store that is open for writing: every change is one durable transaction."""

import os
from _thread import allocate_lock  # as in store/group
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar

from treadle.layout import Layout, MailLayout
from treadle.store import address, opening
from treadle.store.backend import Connection, Database
from treadle.store.codec import Row
from treadle.store.group import Group
from treadle.store.queries import SQL
from treadle.store.reading import Reading
from treadle.store.transaction import Transactions

T = TypeVar("T")

NO_MAIL = MailLayout(Path(os.devnull))


class Writing(Reading):
    """A reader that also writes; many threads may share one."""

    def __init__(
        self,
        connection: Connection,
        database: Database,
        transactions: Transactions,
        mail: MailLayout,
    ) -> None:
        super().__init__(connection, database)
        self.journal_mode = transactions.mode
        self.mail = mail
        self._transactions = transactions
        self._group = Group(transactions.commit)
        self._turn = allocate_lock()

    @classmethod
    def open(cls, layout: Layout, env: Mapping[str, str] = os.environ) -> Self:
        """Open the project's store, made or brought up to date if need be."""
        return cls.at(address.find(layout, env), layout.mail)

    @classmethod
    def at(cls, database: Database, mail: MailLayout = NO_MAIL) -> Self:
        """Open a store that may belong to no folder here, and then has no letters."""
        reading, writer = opening.open_both(database)
        return cls(reading, database, Transactions(writer, database), mail)

    def close(self) -> None:
        """Close both connections and the lock."""
        super().close()
        self._transactions.close()

    def _write(
        self, apply: Callable[[Connection], T], *, alone: bool = True, lasting: bool = True
    ) -> T:
        """Commit a change; one that need not last is safe from a kill, not from a power cut."""
        return self._group.run(apply, alone=alone, lasting=lasting)

    def _all(self, name: str, **values: object) -> list[Row]:
        rows = self._transactions.read(SQL[name], values)
        if rows is not None:
            return rows
        # Two threads reading at once would share the older one's snapshot, and the younger
        # might miss what it has just written.
        with self._turn:
            return super()._all(name, **values)
