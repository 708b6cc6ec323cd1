"""A store that is open for reading: what every reader of some topic stands on."""

import os
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from treadle.layout import Layout
from treadle.store import address, opening
from treadle.store.backend import Connection, Database
from treadle.store.codec import Row
from treadle.store.queries import SQL


class Reading:
    """One connection that never waits for a writer and never writes."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._reading = connection
        self._database = database

    @classmethod
    def open(cls, layout: Layout, env: Mapping[str, str] = os.environ) -> Self:
        """Open the project's store, or an empty one if nothing was ever recorded."""
        database = address.find(layout, env)
        return cls(opening.open_reader(database), database)

    @classmethod
    def at(cls, database: Database) -> Self:
        """Open a store that may belong to no folder here."""
        return cls(opening.open_reader(database), database)

    def now(self) -> datetime:
        """Return the time that leases go by: the database's own, where many machines share it."""
        return self._database.now()

    def close(self) -> None:
        """Give the connection back."""
        self._reading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _one(self, name: str, **values: object) -> Row | None:
        rows = self._all(name, **values)
        return rows[0] if rows else None

    def _all(self, name: str, **values: object) -> list[Row]:
        try:
            return self._reading.execute(SQL[name], values).fetchall()
        except self._database.error as error:
            raise self._database.explain(error) from error
