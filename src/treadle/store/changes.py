"""Notice that somebody has committed to the store, without reading it."""

from treadle.errors import StoreError
from treadle.store.backend import Connection, Database
from treadle.store.sqlite import Sqlite

# Both count whatever is committed: SQLite since the connection was opened, PostgreSQL ever.
_FILE_VERSION = "PRAGMA data_version"
_SERVER_VERSION = "SELECT pg_current_wal_insert_lsn()"


class Changes:
    """One connection that is asked for the database's version, again and again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._place = 0
        self._seen: object = None

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

    def _look(self) -> object:
        is_file = isinstance(self._database, Sqlite)
        try:
            place = self._database.path.stat().st_ino if isinstance(self._database, Sqlite) else 0
            if self._connection is None or place != self._place:
                self.close()
                self._connection, self._place = self._database.open_reader(), place
            version = self._connection.execute(_FILE_VERSION if is_file else _SERVER_VERSION)
            return place, version.fetchone()[0]
        except (OSError, self._database.error, StoreError):
            self.close()
            return None
