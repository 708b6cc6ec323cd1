"""Commit a batch of changes in one transaction, in which each may fail alone."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treadle.errors import StoreError, TreadleError
from treadle.store import sqlite
from treadle.store.group import Change
from treadle.store.lock import WriteLock

# What a change can raise about its own values: refusals, constraints, text or numbers too odd
# for a column. Anything else is a bug and ends the batch.
_OWN = (TreadleError, sqlite3.Error, ValueError, OverflowError)


class Transactions:
    """The one connection of this process that writes."""

    def __init__(self, connection: sqlite3.Connection, lock: WriteLock, database: Path) -> None:
        self._connection = connection
        self._lock = lock
        self._database = database

    def commit(self, batch: Sequence[Change[Any]]) -> None:
        """Apply and commit; afterwards each change is saved or has its error."""
        try:
            with self._lock:
                self._commit_locked(batch)
        except sqlite3.Error as error:
            _fail(batch, sqlite.explain(error, self._database))
        except StoreError as error:
            _fail(batch, error)

    def close(self) -> None:
        """Close under the lock, because the last connection to leave checkpoints."""
        with self._lock:
            self._connection.close()
        self._lock.close()

    def _commit_locked(self, batch: Sequence[Change[Any]]) -> None:
        """Commit all at once; if one fails, each alone, so that it fails alone."""
        connection = self._connection
        connection.execute(sqlite.BEGIN)
        try:
            error = _apply(connection, batch)
            if error is None:
                connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if error is None:
            _mark_saved(batch)
        elif len(batch) == 1:
            batch[0].error = self._own(error)
        else:
            for change in batch:
                self._commit_locked([change])

    def _own(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error):
            error = _because(sqlite.explain(error, self._database), error)
        elif not isinstance(error, TreadleError):
            error = _because(StoreError(f"a value cannot be stored: {error}"), error)
        return error


def _apply(connection: sqlite3.Connection, batch: Sequence[Change[Any]]) -> Exception | None:
    try:
        for change in batch:
            change.result = change.apply(connection)
    except _OWN as error:
        return error
    return None


def _mark_saved(batch: Sequence[Change[Any]]) -> None:
    for change in batch:
        change.saved = True


def _because(error: StoreError, cause: Exception) -> StoreError:
    error.__cause__ = cause
    return error


def _fail(batch: Sequence[Change[Any]], error: StoreError) -> None:
    """Give everyone an error of their own: raising one object in many threads garbles it."""
    for change in batch:
        if not change.saved:
            change.error = change.error or StoreError(error.message, fix=error.fix)
