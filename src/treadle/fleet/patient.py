"""A store that waits out an outage, so that what an agent has finished is not lost."""

import time
from collections.abc import Callable
from typing import TypeVar

from treadle.errors import StoreError
from treadle.store.backend import Connection
from treadle.store.codec import Row
from treadle.store.records import Cursor
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

    def _advance(self, run_id: str, history: History, cursor: Cursor, epoch: int) -> None:
        """Commit once: a connection that broke during a commit leaves open whether it was made."""
        tried = False

        def commit() -> None:
            nonlocal tried
            if tried and self._is_there(run_id, history, epoch):
                return
            tried = True
            super(Patient, self)._advance(run_id, history, cursor, epoch)

        self._patiently(commit)

    def _is_there(self, run_id: str, history: History, epoch: int) -> bool:
        row = self.run(run_id)
        mine = row is not None and row.claim_epoch == epoch
        last = history.events[-1].seq if history.events else None
        return mine and last is not None and self.last_seq(run_id) >= last

    def _patiently(self, do: Callable[[], T]) -> T:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return do()
            except StoreError as error:
                if error.code != _MEANWHILE or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)
