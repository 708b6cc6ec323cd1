"""A store that waits out an outage, so that what an agent has finished is not lost."""

import time
from collections.abc import Callable
from typing import TypeVar

from treadle.errors import StoreError
from treadle.store import run_changes
from treadle.store.backend import Connection
from treadle.store.codec import Row
from treadle.store.queries import SQL
from treadle.store.rows.run import Cursor, RunRow
from treadle.store.run_changes import History
from treadle.store.writer import Store

T = TypeVar("T")

_PAUSE = 0.5
_MEANWHILE = "store_unreachable"


class Patient(Store):
    """Tries again for `patience` seconds what an unreachable database did not take."""

    patience = 60.0

    def _all(self, name: str, **values: object) -> list[Row]:
        return self._patiently(lambda: super(Patient, self)._all(name, **values))

    def _write(
        self, apply: Callable[[Connection], T], *, alone: bool = True, lasting: bool = True
    ) -> T:
        write = super()._write
        return self._patiently(lambda: write(apply, alone=alone, lasting=lasting))

    def _advance(
        self, run_id: str, history: History, cursor: Cursor, epoch: int, releases: bool = False
    ) -> None:
        """Commit once: a connection that broke during a commit leaves open whether it was made."""
        rows, tried = run_changes.rows(run_id, history), False

        def apply(tx: Connection) -> None:
            nonlocal tried
            if tried and _is_there(tx, run_id, history, epoch):
                return
            tried = True
            run_changes.advance(tx, run_id, cursor, epoch, rows, releases)

        self._write(apply, alone=False)

    def _patiently(self, do: Callable[[], T]) -> T:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return do()
            except StoreError as error:
                if error.code != _MEANWHILE or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)


def _is_there(tx: Connection, run_id: str, history: History, epoch: int) -> bool:
    """Tell whether these events are in the timeline, by this owner's hand."""
    row = tx.execute(SQL["run"], {"run_id": run_id}).fetchone()
    if row is None or RunRow._make(row).claim_epoch != epoch or not history.events:
        return False
    last = tx.execute(SQL["last_seq"], {"run_id": run_id}).fetchone()[0]
    return int(last or 0) >= history.events[-1].seq
