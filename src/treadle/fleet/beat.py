"""Beat while a worker lives, and let one of the workers look after the dead and the lost."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.engine import queue
from treadle.errors import StoreError
from treadle.fleet.dispatcher import Dispatcher, Job
from treadle.fleet.drive import Driver
from treadle.fleet.site import Site
from treadle.ids import utc
from treadle.store import fleet
from treadle.store.records import RunRow
from treadle.store.writer import Store

# A job that is ours by the queue's word, but that no thread of ours has, for so many beats.
_PATIENCE = 3


class _Look(NamedTuple):
    """A project's runs that wait, and those that workers hold."""

    name: str
    store: Store
    queued: list[RunRow]
    held: list[RunRow]


class Beat(threading.Thread):
    """The keeper of one worker; it beats until it is told to stop, also while the worker drains."""

    def __init__(
        self,
        worker: str,
        dispatcher: Dispatcher,
        driver: Driver,
        site: Site,
        *,
        every: float,
        dead_after: float,
        on_death: Callable[[], None],
    ) -> None:
        super().__init__(name="beat", daemon=True)
        self.draining = threading.Event()
        self._worker = worker
        self._site = site
        self.store = site.fleet()
        self._dispatcher = dispatcher
        self._driver = driver
        self._every = every
        self._dead_after = dead_after
        self._on_death = on_death
        self._stores: dict[str, Store] = {}
        self._over = threading.Event()
        self._connected_at: float | None = None
        self._beaten_at = 0.0
        self._swept_at = 0.0
        self._seen: set[Job] = set()
        self._strange: dict[Job, int] = {}

    def now(self) -> datetime:
        """Return the time as the database sees it, whatever this machine's clock says."""
        return self.store.now()

    def run(self) -> None:
        """Beat until stopped; whatever fails is tried again at the next beat."""
        while not self._over.wait(self._every):
            try:
                self.tick()
            except Exception:  # noqa: BLE001  # a worker that beats no more is lost, whatever it was
                # An outage of the database is nobody's death: begin to count anew.
                self._connected_at = None

    def end(self) -> None:
        """Stop beating."""
        self._over.set()
        if self.is_alive():
            self.join()

    def close(self) -> None:
        """Close the stores."""
        for store in (self.store, *self._stores.values()):
            store.close()

    def tick(self) -> None:
        """Beat once, and lead if nobody else does."""
        now = self.store.now()
        busy = len(self._driver.active)
        status = fleet.beat(self.store, self._worker, busy, utc(now))
        if status is None:
            self._on_death()
            return
        if status == "draining":
            self.draining.set()
        self._note_connection()
        self._check_own()
        until = now + timedelta(seconds=max(self._dead_after / 2, 2 * self._every))
        if fleet.lead(self.store, self._worker, utc(now), utc(until)):
            self._lead(now)

    def _note_connection(self) -> None:
        """Count from the last gap: who could not beat must not judge others who could not."""
        now = time.monotonic()
        gap = max(self._dead_after - 2 * self._every, self._dead_after / 2)
        if self._connected_at is None or now - self._beaten_at > gap:
            self._connected_at = now
        self._beaten_at = now

    def _lead(self, now: datetime) -> None:
        if time.monotonic() - (self._connected_at or time.monotonic()) >= self._dead_after:
            fleet.bury(self.store, utc(now - timedelta(seconds=self._dead_after)))
        alive = {row.worker_id for row in fleet.workers(self.store) if _lives(row.status)}
        for job, holder in self._dispatcher.health(waiting=False).held.items():
            if holder not in alive:
                self._dispatcher.retry(job)
        self._sweep()

    def _check_own(self) -> None:
        """Send back what the queue believes to be ours and no thread of ours drives."""
        held = self._dispatcher.health(waiting=False).held
        mine = {job for job, holder in held.items() if holder == self._worker}
        lost = mine - self._driver.active
        self._strange = {job: self._strange.get(job, 0) + 1 for job in lost}
        for job, beats in self._strange.items():
            if beats >= _PATIENCE:
                self._dispatcher.retry(job)

    def _sweep(self) -> None:
        """Queue runs that no job stands for: new ones at once, lost ones once in a while."""
        whole = time.monotonic() - self._swept_at >= self._dead_after
        found = list(self._projects(whole))
        waiting = [(look.name, look.store, row) for look in found for row in look.queued]
        new = [item for item in waiting if whole or _job(item[0], item[2]) not in self._seen]
        held = [(look.name, look.store, row) for look in found for row in look.held]
        if not new and not held:
            self._swept_at = time.monotonic() if whole else self._swept_at
            return
        health = self._dispatcher.health()
        jobs = {*health.waiting, *health.held}
        runs = {(job.project, job.run_id) for job in jobs}
        for project, store, row in new:
            if _job(project, row) not in jobs:
                self._submit(project, store, row, again=_job(project, row) in self._seen)
            self._seen.add(_job(project, row))
        for project, store, row in held:
            if (project, row.run_id) not in runs:
                self._submit(project, store, row, again=True)
        self._swept_at = time.monotonic() if whole else self._swept_at

    def _projects(self, whole: bool) -> Iterator[_Look]:
        """Yield how each project stands, but for one that this treadle cannot read."""
        for name, _ in fleet.projects(self.store):
            try:
                store = self._project(name)
                yield _Look(name, store, fleet.queued(store), fleet.held(store) if whole else [])
            except StoreError as error:
                if error.code == "store_unreachable":
                    raise

    def _project(self, name: str) -> Store:
        if name not in self._stores:
            self._stores[name] = self._site.store(name)
        return self._stores[name]

    def _submit(self, project: str, store: Store, row: RunRow, *, again: bool) -> None:
        """Queue a run; one whose job is spent waits under a new epoch."""
        if again:
            changed = queue.requeue(store, row, "its worker lost it", self.now())
            if changed is None:
                return
            row = changed
        ticket = queue.ticket_of(row, store.kv(row.run_id))
        self._dispatcher.submit(_job(project, row), project, ticket.priority, 0.0)
        self._seen.add(_job(project, row))


def _job(project: str, row: RunRow) -> Job:
    return Job(project, row.run_id, row.claim_epoch)


def _lives(status: str) -> bool:
    return status in ("alive", "draining")
