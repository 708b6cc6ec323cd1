"""Where a fleet keeps its tables, how it stands, and a store that waits out an outage."""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from treadle.engine.elsewhere import fleet_run
from treadle.errors import StoreError
from treadle.ids import utc
from treadle.layout import Layout
from treadle.store import address, fleet
from treadle.store.fleet import WorkerRow
from treadle.store.runs import Cursor, History, RunRow
from treadle.store.store import Reader, Store, Transaction
from treadle.store.transaction import Row

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
                if error.code != _MEANWHILE or time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE)


def _is_there(tx: Transaction, run_id: str, history: History, epoch: int) -> bool:
    """Tell whether these events are in the timeline, by this owner's hand."""
    row = tx.run(run_id)
    if row is None or row.claim_epoch != epoch or not history.events:
        return False
    return tx.last_seq(run_id) >= history.events[-1].seq


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
        return self.store(SCHEMA)

    def store(self, project: str, patience: float = 0.0) -> Store:
        """Open a project's store; one with patience waits out an outage."""
        url = self.url
        store = Patient.at(address.at(url, project)) if url else Patient.open(self._here)
        store.patience = patience
        return store

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


# Project and id of the runs that a job stands for; None when the queue cannot be asked.
Jobs = Callable[[], Collection[tuple[str, str]] | None]


class Stuck(NamedTuple):
    """A run that nobody drives although it is under way."""

    project: str
    run_id: str
    worker: str
    beat_at: str | None
    reason: Literal["worker_gone", "no_job"]


class RepositoryLoad(NamedTuple):
    """How many runs of a repository wait, and how many workers drive."""

    repository: str
    queued: int
    running: int


class FleetStatus(NamedTuple):
    """The answer of `fleet status`."""

    now: str
    leader: str | None
    workers: Sequence[WorkerRow]
    repositories: Sequence[RepositoryLoad]
    stuck: Sequence[Stuck]


def status(site: FleetSite, jobs: Jobs) -> FleetStatus:
    """Look at the tables; no worker is asked, the queue only when a run is under way."""
    loads: list[RepositoryLoad] = []
    stuck: list[Stuck] = []
    with site.fleet() as store:
        now, workers = utc(store.now()), fleet.workers(store)
        for name, _ in fleet.projects(store):
            with site.store(name) as rows:
                held = fleet.held(rows)
                loads.append(RepositoryLoad(name, len(fleet.queued(rows)), len(held)))
                stuck += _stuck(name, rows, held, workers, jobs)
        return FleetStatus(now, fleet.leader(store, now), workers, loads, stuck)


def _stuck(
    project: str, store: Reader, held: Sequence[RunRow], workers: Sequence[WorkerRow], jobs: Jobs
) -> list[Stuck]:
    known = {row.worker_id: row for row in workers}
    lost = _without_job(project, store, held, jobs) if held else ()
    found = []
    for row in held:
        name = (row.owner or "").removeprefix(fleet_run.WORKER)
        worker = known.get(name)
        beat_at = worker.beat_at if worker else None
        if worker is None or worker.status not in fleet.LIVING:
            found.append(Stuck(project, row.run_id, name, beat_at, "worker_gone"))
        elif row in lost:
            found.append(Stuck(project, row.run_id, name, beat_at, "no_job"))
    return found


def _without_job(
    project: str, store: Reader, held: Sequence[RunRow], jobs: Jobs
) -> Collection[RunRow]:
    """Return the runs that no job stands for, and that nobody took or ended meanwhile."""
    known = jobs()
    if known is None:
        return ()
    lost = [row for row in held if (project, row.run_id) not in known]
    claims = {(row.run_id, row.claim_epoch) for row in fleet.held(store)} if lost else set()
    return [row for row in lost if (row.run_id, row.claim_epoch) in claims]
