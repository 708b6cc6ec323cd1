"""A dispatcher in this very process, without a table, for tests of what surrounds one."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from treadle.fleet.queue import Job, QueueState


class Inline:
    """A queue in memory; what it held is lost with it, and the sweeper submits it again."""

    worker = "w"

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[Job, int] = {}
        self._known: set[Job] = set()
        self._held: set[Job] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._drive: Callable[[Job], bool] = lambda job: True

    def submit(self, job: Job, priority: int) -> None:
        """Let a job wait."""
        with self._lock:
            if job not in self._known:
                self._known.add(job)
                self._waiting[job] = priority
        self._next()

    def lose(self, job: Job) -> None:
        """Forget a job that waits, as no engine should."""
        with self._lock:
            self._waiting.pop(job, None)

    def retry(self, held: Mapping[Job, str]) -> None:
        """Deliver jobs again."""
        for job in held:
            with self._lock:
                self._waiting[job] = 0
            self._next()

    def forget(self, before: str) -> None:
        """Forget nothing."""

    def work(
        self, slots: int, drive: Callable[[Job], bool], is_fit: Callable[[], bool] = lambda: True
    ) -> None:
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

    def health(self, *, waiting: bool = True, holder: str | None = None) -> QueueState:
        """Return what waits and what is at work."""
        with self._lock:
            return QueueState(list(self._waiting), dict.fromkeys(self._held, "inline"))

    def _next(self) -> None:
        if self._pool:
            self._pool.submit(self._take)

    def _take(self) -> None:
        with self._lock:
            job = min(self._waiting, key=self._waiting.__getitem__, default=None)
            if job is None or self._pool is None:
                return
            del self._waiting[job]
            self._held.add(job)
        try:
            self._drive(job)
        finally:
            with self._lock:
                self._held.discard(job)
