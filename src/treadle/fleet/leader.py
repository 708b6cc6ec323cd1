"""Beat while a worker lives, and let one of the workers look after the dead and the lost."""

import threading
import time
from collections.abc import Callable, Mapping, Set
from datetime import datetime, timedelta

from treadle.config.schema import FleetConfig
from treadle.engine.elsewhere import fleet_run
from treadle.engine.run import memory
from treadle.engine.run.memory import Progress, Watch, nobody
from treadle.errors import StoreError
from treadle.fleet.queue import Dbos, Job
from treadle.fleet.site import FleetSite
from treadle.ids import utc
from treadle.store import fleet
from treadle.store.runs import RunRow
from treadle.store.store import Store

# A job that is ours by the queue's word, but that no thread of ours has: for so many beats.
_PATIENCE = 3
# How soon a beat that the database did not take is tried again, and how short a pause may get.
_AGAIN = 0.25
_SHORTEST = 0.02


class Beat(threading.Thread):
    """The keeper of one worker; it beats until it is told to stop, also while the worker drains."""

    def __init__(
        self,
        worker: str,
        dispatcher: Dbos,
        active: Set[Job],
        site: FleetSite,
        config: FleetConfig,
        on_death: Callable[[], None],
        watch: Watch = nobody,
    ) -> None:
        super().__init__(name="beat", daemon=True)
        self.draining = threading.Event()
        self._worker = worker
        self._site = site
        self.store = site.fleet()
        self._dispatcher = dispatcher
        self._active = active
        self._every = config.beat
        self._dead_after = config.dead_after
        self._on_death = on_death
        self._watch = watch
        self._trouble = ""
        self._stores: dict[str, Store] = {}
        self._over = threading.Event()
        self._came_at = time.monotonic()
        self._connected_at: float | None = None
        self._beaten_at = 0.0
        self._pause = 0.0
        self._swept_at = 0.0
        self._submitted: set[Job] = set()
        self._strange: dict[Job, float] = {}

    def run(self) -> None:
        """Beat until stopped; whatever fails is said once and tried again soon."""
        while not self._over.wait(self._pause):
            try:
                self.tick()
                self._say("")
            except Exception as error:  # noqa: BLE001  # a worker that beats no more is lost
                # An outage of the database is nobody's death: begin to count anew.
                self._connected_at = None
                self._pause = min(_AGAIN, self._every)
                self._say(f"worker {self._worker} cannot beat: {type(error).__name__}: {error}")

    def _say(self, trouble: str) -> None:
        """Tell the onlooker when beats begin to fail, and when they go through again."""
        if trouble != self._trouble:
            message = trouble or f"worker {self._worker} beats again"
            self._watch(Progress(kind="note", run_id="", message=message))
        self._trouble = trouble

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
        busy = len(self._active)
        status = fleet.beat(self.store, self._worker, busy, utc(now))
        if status is None:
            self._on_death()
            return
        if status == "draining":
            self.draining.set()
        self._note_connection()
        held = self._dispatcher.health(waiting=False).held
        self._check_own(held)
        self._pause = self._every
        until = now + timedelta(seconds=max(self._dead_after / 2, 2 * self._every))
        if self._may_lead() and fleet.lead(self.store, self._worker, utc(now), utc(until)):
            self._lead(now, held)

    def _note_connection(self) -> None:
        """Count from the last gap: who could not beat must not judge others who could not."""
        now = time.monotonic()
        gap = max(self._dead_after - 2 * self._every, self._dead_after / 2)
        if self._connected_at is None or now - self._beaten_at > gap:
            self._connected_at = now
        self._beaten_at = now

    def _may_lead(self) -> bool:
        """Leave the lead to an older worker while this one is too new to judge the others."""
        if time.monotonic() - self._came_at >= self._dead_after:
            return True
        oldest = next(iter(fleet.living(self.store)), None)
        return oldest is None or oldest.worker_id == self._worker

    def _lead(self, now: datetime, held: Mapping[Job, str]) -> None:
        """Judge, and send back what the dead held; then look for what was lost otherwise."""
        if self._known_for() >= self._dead_after:
            self._bury(utc(now - timedelta(seconds=self._dead_after)))
        alive = {row.worker_id: row.beat_at for row in fleet.living(self.store)}
        if orphans := [job for job, holder in held.items() if holder not in alive]:
            self._dispatcher.retry(*orphans)
        self._sweep()
        self._pause = self._until_next(min(alive.values(), default=utc(now)))

    def _bury(self, before: str) -> None:
        """Declare dead who was silent; one that stands still in a transaction holds up nobody."""
        for row in fleet.living(self.store):
            if row.beat_at < before:
                fleet.cut_off(self.store, row.worker_id)
                fleet.bury(self.store, row.worker_id, before)

    def _known_for(self) -> float:
        """Return how long the database has been reached without a gap."""
        return time.monotonic() - (self._connected_at or time.monotonic())

    def _until_next(self, oldest: str) -> float:
        """Return how long to wait: a worker is judged when it is due, not at the next beat."""
        silent = (self.store.now() - datetime.fromisoformat(oldest)).total_seconds()
        due = self._dead_after - min(silent, self._known_for())
        return max(min(due, self._every), _SHORTEST)

    def _check_own(self, held: Mapping[Job, str]) -> None:
        """Send back what the queue believes to be ours and no thread of ours drives."""
        mine = {job for job, holder in held.items() if holder == self._worker}
        now = time.monotonic()
        self._strange = {job: self._strange.get(job, now) for job in mine - self._active}
        late = now - _PATIENCE * self._every
        if lost := [job for job, since in self._strange.items() if since <= late]:
            self._dispatcher.retry(*lost)

    def _sweep(self) -> None:
        """Queue the runs that no job stands for, once in a while."""
        if time.monotonic() - self._swept_at < self._dead_after:
            return
        until = time.monotonic() + self._every
        for project, row in self._without_job():
            self._submit(project, row)
            if time.monotonic() > until:
                return  # the next beat must not be late; what is left is found then
        self._swept_at = time.monotonic()

    def _without_job(self) -> list[tuple[str, RunRow]]:
        """Return the runs that wait or are driven, and that the queue does not know."""
        found = [(name, row) for name, _ in fleet.projects(self.store) for row in self._runs(name)]
        state = self._dispatcher.health()  # last: a run that is taken meanwhile has its job
        known = {(job.project, job.run_id) for job in (*state.waiting, *state.held)}
        return [(name, row) for name, row in found if (name, row.run_id) not in known]

    def _runs(self, project: str) -> list[RunRow]:
        """Return a project's runs; none if this treadle cannot read its store."""
        try:
            if project not in self._stores:
                self._stores[project] = self._site.store(project)
            store = self._stores[project]
            return [*fleet.queued(store), *fleet.held(store)]
        except StoreError as error:
            if error.code == "store_unreachable":
                raise
            return []

    def _submit(self, project: str, row: RunRow) -> None:
        """Queue a run; one whose job is spent waits under a new epoch."""
        store, job = self._stores[project], Job(project, row.run_id, row.claim_epoch)
        if row.status == "running" or job in self._submitted:
            changed = fleet_run.requeue(store, row, "its worker lost it")
            if changed is None:
                return
            job = job._replace(attempt=changed.claim_epoch)
        known = memory.recall(store, row.run_id)
        self._dispatcher.submit(job, fleet_run.priority_of(known))
        self._submitted.add(job)
