"""A dispatcher in this very process, without an engine, for tests of what surrounds one."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from treadle.fleet.dispatcher import Health, Job


class Inline:
    """A queue in memory; what it held is lost with it, and the sweeper submits it again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[Job, tuple[int, str]] = {}
        self._known: set[Job] = set()
        self._held: set[Job] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._drive: Callable[[Job], None] = lambda job: None

    def submit(self, job: Job, repository: str, priority: int, not_before: float) -> None:
        """Let a job wait; `not_before` is not kept here."""
        with self._lock:
            if job not in self._known:
                self._known.add(job)
                self._waiting[job] = (priority, repository)
        self._next()

    def cancel(self, job: Job) -> None:
        """Forget a job that waits."""
        with self._lock:
            self._waiting.pop(job, None)

    def retry(self, *jobs: Job) -> None:
        """Deliver jobs again."""
        for job in jobs:
            with self._lock:
                self._waiting[job] = (0, job.project)
            self._next()

    def work(self, slots: int, drive: Callable[[Job], None]) -> None:
        """Begin to take jobs."""
        self._drive = drive
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="run")
        for _ in range(len(self._waiting)):
            self._next()

    def drain(self) -> None:
        """Wait for the jobs at work."""
        pool, self._pool = self._pool, None
        if pool:
            pool.shutdown(wait=True)

    def health(self, *, waiting: bool = True) -> Health:
        """Return what waits and what is at work."""
        with self._lock:
            found = {job: repository for job, (_, repository) in self._waiting.items()}
            return Health(found, dict.fromkeys(self._held, "inline"))

    def _next(self) -> None:
        if self._pool:
            self._pool.submit(self._take)

    def _take(self) -> None:
        with self._lock:
            job = min(self._waiting, key=lambda found: self._waiting[found][0], default=None)
            if job is None or self._pool is None:
                return
            del self._waiting[job]
            self._held.add(job)
        try:
            self._drive(job)
        finally:
            with self._lock:
                self._held.discard(job)
