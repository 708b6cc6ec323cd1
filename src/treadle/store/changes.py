"""Notice that somebody has committed to the store, without reading it."""

import sqlite3

from treadle.errors import StoreError
from treadle.layout import Layout
from treadle.store import sqlite


class Changes:
    """One connection that is asked for the database's version, again and again."""

    def __init__(self, layout: Layout) -> None:
        self._database = layout.database
        self._connection: sqlite3.Connection | None = None
        self._seen: tuple[int, int] | None = None

    def happened(self) -> bool:
        """Tell whether the store is another one or has other content than at the last call."""
        found = self._look()
        changed, self._seen = found != self._seen, found
        return changed

    def close(self) -> None:
        """Give the connection back."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def _look(self) -> tuple[int, int] | None:
        try:
            place = self._database.stat().st_ino
            if self._connection is None or self._seen is None or self._seen[0] != place:
                self.close()
                self._connection = sqlite.open_reader(self._database)
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except (OSError, sqlite3.Error, StoreError):
            self.close()
            return None
        return place, int(version)
