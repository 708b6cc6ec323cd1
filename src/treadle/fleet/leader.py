"""Beat while a worker lives, and let one of the workers look after the dead and the lost."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from itertools import chain

from treadle.config.schema import FleetConfig
from treadle.engine.elsewhere import fleet_run
from treadle.engine.run import memory
from treadle.engine.run.memory import Progress, Watch, nobody
from treadle.fleet.metrics import Counts
from treadle.fleet.queue import Job, Queue
from treadle.fleet.site import FleetSite
from treadle.fleet.trouble import Fitness
from treadle.ids import utc
from treadle.store import fleet
from treadle.store.fleet import FleetRuns, WorkerRow
from treadle.store.runs import RunRow
from treadle.store.store import Store

# A job that is ours by the queue's word, but that no thread of ours has: for so many beats.
_PATIENCE = 3
# How soon a beat that the database did not take is tried again, and how short a pause may get.
_AGAIN = 0.25
_SHORTEST = 0.02
# For how long a job that is done is remembered, so that nobody submits it again.
_FORGET = timedelta(hours=1)


class Beat(threading.Thread):
    """The keeper of one worker; it beats until it is told to stop, also while the worker drains."""

    def __init__(
        self,
        worker: str,
        dispatcher: Queue,
        active: Set[Job],
        site: FleetSite,
        config: FleetConfig,
        on_death: Callable[[], None],
        watch: Watch = nobody,
    ) -> None:
        super().__init__(name="beat", daemon=True)
        self.health = Fitness(float(config.patience), self.note)
        self.counts = Counts()
        self.draining = threading.Event()
        self._worker = worker
        self._site = site
        self.store = site.fleet()
        self._dispatcher = dispatcher
        self._active = active
        self._every = config.beat
        self._dead_after = self._shortest = float(config.dead_after)
        self._on_death = on_death
        self._watch = watch
        self._trouble = ""
        self._over = threading.Event()
        self._came_at = time.monotonic()
        self._connected_at: float | None = None
        self._beaten_at = self._came_at
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
                self._say(f"cannot send its heartbeat: {type(error).__name__}: {error}")

    def _say(self, trouble: str) -> None:
        """Tell the onlooker when beats begin to fail, and when they go through again."""
        if trouble != self._trouble:
            self.note(trouble or "sends its heartbeat again")
        self._trouble = trouble

    def note(self, message: str) -> None:
        """Say something of this worker in its log."""
        text = f"worker {self._worker} {message}"
        self._watch(Progress(kind="note", run_id="", message=text))

    def silence(self) -> float:
        """Return for how long the database has taken no beat."""
        return time.monotonic() - self._beaten_at

    def end(self) -> None:
        """Stop beating."""
        self._over.set()
        if self.is_alive():
            self.join()

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def tick(self) -> None:
        """Beat once, and lead if nobody else does."""
        now = self.store.now()
        busy = len(self._active)
        beaten = fleet.beat(self.store, self._worker, busy, utc(now), self.health.trouble)
        if beaten is None:
            self._on_death()
            return
        status, is_any_held = beaten
        if status == "draining":
            self.draining.set()
        self.counts.add("beats_total")
        self._note_connection()
        self._pause = self._every
        until = now + timedelta(seconds=max(self._dead_after / 2, 2 * self._every))
        if self._may_lead() and fleet.lead(self.store, self._worker, utc(now), utc(until)):
            self._lead(now, is_any_held)
        else:
            self._check_own(self._held(is_any_held, self._worker))

    def _held(self, is_any: bool, holder: str | None = None) -> Mapping[Job, str]:
        """Return who holds what, or what one holds; the beat has told whether to ask at all."""
        return self._dispatcher.health(waiting=False, holder=holder).held if is_any else {}

    def _note_connection(self) -> None:
        """Count from the last gap: who could not beat must not judge others who could not."""
        now = time.monotonic()
        gap = now - self._beaten_at - self._pause
        if self._connected_at is None or gap > self._shortest / 2:
            self._connected_at = now
        self._beaten_at = now

    def _may_lead(self) -> bool:
        """Leave the lead to an older worker while this one is too new to judge the others."""
        if time.monotonic() - self._came_at >= self._dead_after:
            return True
        oldest = next(iter(fleet.living(self.store)), None)
        return oldest is None or oldest.worker_id == self._worker

    def _lead(self, now: datetime, is_any_held: bool) -> None:
        """Judge, and send back what the dead held; then look for what was lost otherwise."""
        living = fleet.living(self.store)
        if has_buried := any([self._bury(row, now) for row in living]):
            living = fleet.living(self.store)
        alive = {row.worker_id for row in living}
        held = self._held(is_any_held or has_buried)  # one may have taken a job since the beat
        self._check_own(held)
        if orphans := {job: holder for job, holder in held.items() if holder not in alive}:
            self._dispatcher.retry(orphans)
        self._sweep(now)
        self._pause = self._until_next(living)

    def _bury(self, row: WorkerRow, now: datetime) -> bool:
        """Declare dead who was silent; one that stands still in a transaction holds up nobody."""
        before = utc(now - timedelta(seconds=self._period(row)))
        is_silent = self._known_for() >= self._period(row) and row.beat_at < before
        if is_silent:
            fleet.cut_off(self.store, row.worker_id)
            fleet.bury(self.store, row.worker_id, before)
        return is_silent

    def _period(self, row: WorkerRow) -> float:
        """Return for how long a worker may be silent: it knows best how often it beats."""
        return row.dead_after or self._dead_after

    def _known_for(self) -> float:
        """Return how long the database has been reached without a gap."""
        return time.monotonic() - (self._connected_at or time.monotonic())

    def _until_next(self, living: Sequence[WorkerRow]) -> float:
        """Return how long to wait: a worker is judged when it is due, not at the next beat."""
        now, known_for = self.store.now(), self._known_for()
        silent = {it: (now - datetime.fromisoformat(it.beat_at)).total_seconds() for it in living}
        due = [self._period(it) - min(silent[it], known_for) for it in living]
        self._shortest = min([self._dead_after, *map(self._period, living)])
        return max(min(self._every, self._shortest / 4, *due), _SHORTEST)

    def _check_own(self, held: Mapping[Job, str]) -> None:
        """Send back what the queue believes to be ours and no thread of ours drives."""
        mine = {job for job, holder in held.items() if holder == self._worker}
        now = time.monotonic()
        self._strange = {job: self._strange.get(job, now) for job in mine - self._active}
        late = now - _PATIENCE * self._every
        if lost := {job: self._worker for job, at in self._strange.items() if at <= late}:
            self._dispatcher.retry(lost)

    def _sweep(self, now: datetime) -> None:
        """Queue the runs that no job stands for, once in a while."""
        if time.monotonic() - self._swept_at < self._dead_after:
            return
        until = time.monotonic() + self._every
        for project, rows in self._without_job().items():
            with self._site.store(project) as store:
                for row in rows:
                    self._submit(store, project, row)
                    if time.monotonic() > until:
                        return  # the next beat must not be late; what is left is found then
        self._dispatcher.forget(utc(now - _FORGET))
        self._swept_at = time.monotonic()

    def _without_job(self) -> dict[str, list[RunRow]]:
        """Return the runs that something is left to do for, and that the queue does not know."""
        names = [name for name, _ in fleet.projects(self.store)]
        # What this treadle cannot read is not its own to look after, or gone.
        open_runs = self._site.runs(self.store, names)
        found = {name: [*chain(*it)] for name, it in open_runs if isinstance(it, FleetRuns)}
        jobs = {Job(name, row.run_id, row.claim_epoch) for name in found for row in found[name]}
        # What was submitted for runs that have gone on since is of no interest any more.
        self._submitted &= jobs
        if not jobs:
            return {}
        state = self._dispatcher.health()  # last: a run that is taken meanwhile has its job
        known = {(job.project, job.run_id) for job in (*state.waiting, *state.held)}
        lost = {
            name: [row for row in rows if (name, row.run_id) not in known]
            for name, rows in found.items()
        }
        return {name: rows for name, rows in lost.items() if rows}

    def _submit(self, store: Store, project: str, row: RunRow) -> None:
        """Queue a run; one whose job is spent waits under a new epoch."""
        job = Job(project, row.run_id, row.claim_epoch)
        known = memory.recall(store, row.run_id)
        epoch: int | None = row.claim_epoch
        if row.status == "running" or (memory.is_queued(row, known) and job in self._submitted):
            changed = fleet_run.requeue(store, row, "its worker lost it")
            epoch = changed.claim_epoch if changed else None
        elif not memory.is_queued(row, known):  # whoever takes it tells everybody that it ended
            epoch = fleet.claim(store, row, row.owner)
        if epoch is not None:
            job = job._replace(attempt=epoch)
            self._dispatcher.submit(job, fleet_run.priority_of(known))
            self._submitted.add(job)
