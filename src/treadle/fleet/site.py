"""Where a fleet keeps its tables, and a store that waits out an outage."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from treadle.errors import StoreError
from treadle.layout import Layout
from treadle.store import address
from treadle.store.codec import Row
from treadle.store.runs import Cursor, History
from treadle.store.store import Store, Transaction

T = TypeVar("T")

_PAUSE = 0.5
_MEANWHILE = "store_unreachable"


class Patient(Store):
    """Tries again for `patience` seconds what an unreachable database did not take."""

    patience = 60.0

    def all(self, name: str, **values: object) -> list[Row]:
        """Return rows, as soon as the database can be reached."""
        return self._patiently(lambda: super(Patient, self).all(name, **values))

    def write(self, apply: Callable[[Any], T], *, alone: bool = True, lasting: bool = True) -> T:
        """Commit a change, as soon as the database can be reached."""
        write = super().write
        return self._patiently(lambda: write(apply, alone=alone, lasting=lasting))

    def advance(
        self, run_id: str, history: History, cursor: Cursor, epoch: int, releases: bool = False
    ) -> None:
        """Commit once: a connection that broke during a commit leaves open whether it was made."""
        tried = False

        def apply(tx: Transaction) -> None:
            nonlocal tried
            if tried and _is_there(tx, run_id, history, epoch):
                return
            tried = True
            tx.advance(run_id, history, cursor, epoch, releases)

        self.write(apply, alone=False)

    def _patiently(self, do: Callable[[], T]) -> T:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return do()
            except StoreError as error:
                if error.code != _MEANWHILE or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)


def _is_there(tx: Transaction, run_id: str, history: History, epoch: int) -> bool:
    """Tell whether these events are in the timeline, by this owner's hand."""
    row = tx.run(run_id)
    if row is None or row.claim_epoch != epoch or not history.events:
        return False
    return tx.last_seq(run_id) >= history.events[-1].seq


S = TypeVar("S", bound=Store)

# Where the workers of a shared database are listed.
SCHEMA = "treadle_fleet"
LOCAL = "local"


class FleetSite(NamedTuple):
    """A fleet's database; without `url` it is the one project's own file."""

    url: str | None
    project: str
    layout: Layout | None

    @property
    def queue(self) -> str:
        """Return the address of the dispatcher's own tables."""
        return self.url or f"sqlite:///{self._here.fleet_queue}"

    def fleet(self) -> Store:
        """Open the store that lists the workers."""
        return Store.at(address.at(self.url, SCHEMA)) if self.url else Store.open(self._here)

    def store(self, project: str) -> Store:
        """Open a project's store."""
        return self._open(Store, project)

    def patient_store(self, project: str, patience: float) -> Patient:
        """Open a project's store for a worker, which waits out an outage."""
        store = self._open(Patient, project)
        store.patience = patience
        return store

    def _open(self, kind: type[S], project: str) -> S:
        if self.url is None:
            return kind.open(self._here)
        return kind.at(address.at(self.url, project))

    @property
    def _here(self) -> Layout:
        assert self.layout is not None  # find() gives one or the other
        return self.layout


def find_site(layout: Layout | None, env: Mapping[str, str]) -> FleetSite | None:
    """Return the fleet that the environment or the project names; None if neither does."""
    place = layout or Layout(Path(os.devnull))
    url = address.settings(place, env).store
    if url is None or url.startswith("sqlite:"):
        return FleetSite(None, LOCAL, layout) if layout else None
    return FleetSite(url, address.schema(place, env), layout)
