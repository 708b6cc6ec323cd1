"""Hand runs to the workers: a table of jobs beside the list of workers, and a thread that takes."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Semaphore, Thread
from typing import NamedTuple

from treadle.config.schema import FleetConfig
from treadle.errors import StoreError
from treadle.fleet.site import FleetSite
from treadle.ids import utc
from treadle.store import fleet
from treadle.store.store import Store

# While nothing comes, looks become rarer, up to so many times `fleet.polling`: every two seconds
# with its default, because a dead worker's run is promised to another one within 2.5.
RAREST = 2.0
_GROWTH = 1.2
# For how long a worker leaves a job to others that it gave back. One that is not for it is left
# for longer, and its project as well: there may be thousands more of them.
_LEAVES, _NOT_FOR_IT = 2.0, 20.0


class Job(NamedTuple):
    """One delivery of a run; `attempt` is the epoch it waited under, so each wait is one job."""

    project: str
    run_id: str
    attempt: int

    @property
    def id(self) -> str:
        """Return the job's name: submitting it twice is submitting it once."""
        return f"{self.project}/{self.run_id}/{self.attempt}"


def parse_job(text: str) -> Job:
    """Read a job's name."""
    project, run_id, attempt = text.split("/")
    return Job(project, run_id, int(attempt))


# Drives a job and tells whether it is done with; None means: never by this worker.
Drive = Callable[[Job], bool | None]


class QueueState(NamedTuple):
    """How the queue stands: the jobs that wait, and the holder of each other."""

    waiting: Collection[Job]
    held: Mapping[Job, str]


class Queue:
    """Queue runs, hand each to one worker at a time, and deliver again what was lost.

    What a run is, and whether it goes on, the project's own tables say.
    """

    def __init__(self, site: FleetSite, config: FleetConfig, worker: str = "nobody") -> None:
        self._site = site
        self._config = config
        self.worker = worker
        self._leaving = Event()
        self._changed = Event()
        self._left: dict[str, float] = {}
        self._open: Store | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._taker: Thread | None = None

    def submit(self, job: Job, priority: int) -> None:
        """Let a job wait; a smaller priority comes first, and a second time changes nothing."""
        with self._store() as store:
            fleet.add_job(store, job.id, job.project, priority, utc(store.now()))

    def retry(self, held: Mapping[Job, str]) -> None:
        """Deliver jobs again that these workers have."""
        self._end("waiting", held)

    def work(self, slots: int, drive: Drive, is_fit: Callable[[], bool] = lambda: True) -> None:
        """Begin to take jobs while fit, and return."""
        self._open = self._site.fleet(float(self._config.patience))
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="run")
        self._leaving.clear()
        args = Semaphore(slots), drive, is_fit
        self._taker = Thread(target=self._take_jobs, args=args, name="queue", daemon=True)
        self._taker.start()

    def drain(self) -> None:
        """Take no more jobs, and return when those at work are done."""
        self._leaving.set()
        self._changed.set()
        if self._taker and self._pool and self._open:
            self._taker.join()
            self._pool.shutdown()
            self._open.close()
        self._taker = self._pool = self._open = None

    def health(self, *, waiting: bool = True, holder: str | None = None) -> QueueState:
        """Return who holds what, or what one has; if asked, what waits: that may be thousands."""
        with self._store() as store:
            idle = fleet.waiting_jobs(store) if waiting else ()
            held = fleet.held_jobs(store, holder)
        return QueueState(
            {parse_job(it.job) for it in idle},
            {parse_job(it.job): it.worker_id or "" for it in held},
        )

    def forget(self, before: str) -> None:
        """Remove jobs that were done before then: nobody submits those again."""
        with self._store() as store:
            fleet.forget_jobs(store, before)

    def _take_jobs(self, free: Semaphore, drive: Drive, is_fit: Callable[[], bool]) -> None:
        """Take a job whenever there is a slot for it; the next look is after a pause."""
        pause = polling = float(self._config.polling)
        with self._site.fleet() as store:  # without patience: a drain need not wait for it
            while not self._leaving.is_set():
                job = None
                if has_slot := free.acquire(timeout=polling):
                    job = self._take(store) if is_fit() else None
                if job and self._pool:
                    pause = polling
                    self._pool.submit(self._drive, job, drive, free)
                elif has_slot:
                    free.release()
                    pause = polling if self._changed.wait(pause) else pause * _GROWTH
                    pause = min(pause, RAREST * polling)
                    self._changed.clear()

    def _take(self, store: Store) -> Job | None:
        now = time.monotonic()
        self._left = {name: until for name, until in self._left.items() if until > now}
        try:
            found = fleet.take_job(store, self.worker, self._config.per_repository, self._left)
        except StoreError:
            return None  # the beat says so, again and again
        return parse_job(found) if found else None

    def _drive(self, job: Job, drive: Drive, free: Semaphore) -> None:
        """Drive a job; one that fails is done as well: the leader finds what it left."""
        state = "done"
        try:
            if not (is_done := drive(job)):
                state, now = "waiting", time.monotonic()
                self._left[job.id] = now + _LEAVES
                if is_done is None:
                    self._left |= {job.project: now + _LEAVES, job.id: now + _NOT_FOR_IT}
        finally:
            try:
                self._end(state, {job: self.worker})
            finally:
                free.release()
                self._changed.set()

    def _end(self, state: str, held: Mapping[Job, str]) -> None:
        with self._store() as store:
            fleet.end_jobs(store, state, {it.id: held[it] for it in held}, utc(store.now()))

    @contextlib.contextmanager
    def _store(self) -> Iterator[Store]:
        """Return the open store, or one for as long as it is needed."""
        if self._open:
            yield self._open
        else:
            with self._site.fleet() as store:
                yield store
