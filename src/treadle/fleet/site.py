"""Where a fleet keeps its tables, how it stands, and a store that waits out an outage."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from treadle.engine.elsewhere import fleet_run
from treadle.errors import StoreError
from treadle.ids import FLEET_SCHEMA, utc
from treadle.layout import Layout
from treadle.store import address, fleet
from treadle.store.fleet import FleetRuns, WorkerRow
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


LOCAL = "local"


class FleetSite(NamedTuple):
    """A fleet's database; without `url` it is the one project's own file."""

    url: str | None
    project: str
    layout: Layout | None

    @property
    def queue(self) -> str:
        """Return the address of the queue."""
        return self.url or f"sqlite:///{self._here.database}"

    def fleet(self, patience: float = 0.0) -> Store:
        """Open the store that lists the workers."""
        return self.store(FLEET_SCHEMA, patience)

    def store(self, project: str, patience: float = 0.0) -> Store:
        """Open a project's store; one with patience waits out an outage."""
        url = self.url
        store = Patient.at(address.at(url, project)) if url else Patient.open(self._here)
        store.patience = patience
        return store

    def reader(self, project: str) -> Reader:
        """Open a project's store for a look."""
        url = self.url
        return Reader.at(address.at(url, project)) if url else Reader.open(self._here)

    def runs(
        self, store: Store, projects: Sequence[str]
    ) -> Iterator[tuple[str, FleetRuns | StoreError]]:
        """Yield the runs of each project, or why they cannot be read: they may be others'."""
        known = fleet.runs_by_project(store, projects)
        for name in projects:
            found: FleetRuns | StoreError
            try:
                found = known.get(name) or self._look(name)
            except StoreError as error:
                if error.code == _MEANWHILE:
                    raise
                found = error
            yield name, found

    def _look(self, project: str) -> FleetRuns:
        """Look into one project, which may have to be brought up to date first."""
        with self.reader(project) as store:
            return fleet.runs(store)

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


class Stuck(NamedTuple):
    """A run that nobody drives although it is under way."""

    project: str
    run_id: str
    worker: str
    beat_at: str | None
    reason: Literal["worker_gone", "no_job"]


class RepositoryLoad(NamedTuple):
    """How many runs of a repository wait, and how many workers drive; the oldest waits longest.

    `problem` says why they cannot be counted: they may be another team's.
    """

    repository: str
    queued: int
    running: int
    oldest: float = 0.0
    problem: str | None = None


class FleetStatus(NamedTuple):
    """The answer of `fleet status`."""

    now: str
    leader: str | None
    workers: Sequence[WorkerRow]
    repositories: Sequence[RepositoryLoad]
    stuck: Sequence[Stuck]
    lines: int  # that the process which asks has to the database


def status(site: FleetSite) -> FleetStatus:
    """Look at the tables; no worker is asked."""
    loads: list[RepositoryLoad] = []
    driven: dict[str, list[RunRow]] = {}
    with site.fleet() as store:
        now, workers = utc(store.now()), fleet.workers(store)
        for name, found in site.runs(store, [name for name, _ in fleet.projects(store)]):
            if isinstance(found, StoreError):
                loads.append(RepositoryLoad(name, 0, 0, problem=found.message))
                continue
            driven[name] = found.held
            since = min((row.created_at for row in found.queued), default=now)
            oldest = datetime.fromisoformat(now) - datetime.fromisoformat(since)
            counts = len(found.queued), len(found.held)
            loads.append(RepositoryLoad(name, *counts, oldest.total_seconds()))
        stuck = list(_stuck(site, store, driven, workers))
        leader, lines = fleet.leader(store, now), int(store.all("own_lines")[0][0])
        return FleetStatus(now, leader, workers, loads, stuck, lines)


def _stuck(
    site: FleetSite,
    store: Store,
    driven: Mapping[str, Sequence[RunRow]],
    workers: Sequence[WorkerRow],
) -> Iterator[Stuck]:
    known = {row.worker_id: row for row in workers}
    lost = _without_job(site, store, driven) if any(driven.values()) else {}
    for project, row in ((name, row) for name, rows in driven.items() for row in rows):
        owner = (row.owner or "nobody").removeprefix(fleet_run.WORKER)
        worker = known.get(owner)
        beat_at = worker.beat_at if worker else None
        if worker is None or worker.status not in fleet.LIVING:
            yield Stuck(project, row.run_id, owner, beat_at, "worker_gone")
        elif row in lost.get(project, ()):
            yield Stuck(project, row.run_id, owner, beat_at, "no_job")


def _without_job(
    site: FleetSite, store: Store, driven: Mapping[str, Sequence[RunRow]]
) -> dict[str, list[RunRow]]:
    """Return the runs that no job stands for, and that nobody took or ended meanwhile."""
    jobs = (*fleet.waiting_jobs(store), *fleet.held_jobs(store))
    known = {it.job.rpartition("/")[0] for it in jobs}
    lost = {
        name: [row for row in rows if f"{name}/{row.run_id}" not in known]
        for name, rows in driven.items()
    }
    names = [name for name, rows in lost.items() if rows]
    now = {name: it.held for name, it in site.runs(store, names) if isinstance(it, FleetRuns)}
    claims = {(name, row.run_id, row.claim_epoch) for name in now for row in now[name]}
    return {
        name: [row for row in lost[name] if (name, row.run_id, row.claim_epoch) in claims]
        for name in names
    }
