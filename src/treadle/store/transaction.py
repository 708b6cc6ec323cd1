"""Commit a batch of changes in one transaction, in which each may fail alone."""

from _thread import allocate_lock  # as in store/group
from collections.abc import Mapping, Sequence
from typing import Any

from treadle.errors import StoreError, TreadleError
from treadle.store.backend import Database, Writer
from treadle.store.codec import Row
from treadle.store.group import Change

# What a change can raise about its own values, beside what the database says: refusals, text or
# numbers too odd for a column. Anything else is a bug and ends the batch.
_OWN = (TreadleError, ValueError, OverflowError)
# How often a change is tried again that another process was in the way of.
_TRIES = 3


class Transactions:
    """The one connection of this process that writes."""

    def __init__(self, writer: Writer, database: Database) -> None:
        self._writer = writer
        self._connection = writer.connection
        self._database = database
        self._turn = allocate_lock()
        self.mode = writer.mode

    def commit(self, batch: Sequence[Change[Any]]) -> None:
        """Apply and commit; afterwards each change is saved or has its error."""
        try:
            with self._turn, self._writer:
                self._commit_in_turn(batch)
        except self._database.error as error:
            _fail(batch, self._database.explain(error))
        except StoreError as error:
            _fail(batch, error)

    def read(self, sql: str, values: Mapping[str, object]) -> list[Row] | None:
        """Return rows from this connection, which still has them at hand; None while it writes."""
        if self.mode != "wal" or self._turn.locked():
            return None
        try:
            with self._turn:
                return self._connection.execute(sql, values).fetchall()
        except self._database.error as error:
            raise self._database.explain(error) from error

    def close(self) -> None:
        """Give the connection back."""
        self._writer.close()

    def _commit_in_turn(self, batch: Sequence[Change[Any]], tries: int = _TRIES) -> None:
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

    def _apply(self, batch: Sequence[Change[Any]]) -> Exception | None:
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
            change.error = change.error or StoreError(error.message, code=error.code, fix=error.fix)
