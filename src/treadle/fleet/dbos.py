"""Dispatch with DBOS Transact, on PostgreSQL or SQLite; the only module that knows it."""

import contextlib
from collections.abc import Callable, Iterator
from threading import Lock

from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, error
from sqlalchemy.exc import SQLAlchemyError

from treadle.errors import StoreError
from treadle.fleet.dispatcher import Health, Job, parse

NAME = "treadle"
QUEUE = "runs"
WORKFLOW = "drive_run"
# Not the code's own digest: an upgrade must find the runs that the old version left waiting.
VERSION = "run-v1"
POOL = 4
_CLIENT_POOL = 2
_WAITING = ["ENQUEUED", "DELAYED"]
_FOREVER = 10**8  # seconds; a drain ends when the runs do


class Dbos:
    """Queue, claim, re-deliver and cancel; what a run is, treadle's own tables say."""

    def __init__(self, url: str, worker: str, polling: float, per_repository: int) -> None:
        self._url = url
        self._worker = worker
        self._polling = polling
        self._per_repository = per_repository
        self._client: DBOSClient | None = None
        self._engine: DBOS | None = None
        self._lock = Lock()
        self._active: set[Job] = set()
        self._slots = 0

    def submit(self, job: Job, repository: str, priority: int, not_before: float) -> None:
        """Let a job wait; a second time changes nothing."""
        with _explained():
            self._opened().enqueue(
                {
                    "workflow_name": WORKFLOW,
                    "queue_name": QUEUE,
                    "workflow_id": job.id,
                    "app_version": VERSION,
                    "queue_partition_key": repository,
                    "priority": priority + 1,
                    **({"delay_seconds": not_before} if not_before > 0 else {}),  # type: ignore[typeddict-item]  # a key of it
                },
                job.id,
            )

    def cancel(self, job: Job) -> None:
        """Deliver a job no more."""
        with _explained():
            self._opened().cancel_workflow(job.id)

    def retry(self, job: Job) -> None:
        """Put a job back into the queue, whoever had it."""
        with _explained():
            self._opened().resume_workflows([job.id], queue_name=QUEUE)

    def work(self, slots: int, drive: Callable[[Job], None]) -> None:
        """Begin to take jobs."""
        self._slots = slots
        config: DBOSConfig = {
            "name": NAME,
            "system_database_url": self._url,
            "sys_db_pool_size": POOL,
            "executor_id": self._worker,
            "application_version": VERSION,
            "serializer": DBOSPortableJSONSerializer(),
            "use_listen_notify": False,
            "max_executor_threads": slots + 4,
            "log_level": "CRITICAL",
        }
        with _explained():
            self._engine = DBOS(config=config)
            DBOS.workflow(name=WORKFLOW)(lambda name: self._deliver(parse(name), drive))
            DBOS.launch()
            DBOS.register_queue(
                QUEUE,
                worker_concurrency=slots,
                partition_concurrency=self._per_repository,
                polling_interval_sec=self._polling,
                on_conflict="always_update",
            )

    def drain(self) -> None:
        """Take no more jobs and wait for those at work."""
        if self._engine:
            DBOS.destroy(workflow_completion_timeout_sec=_FOREVER)
            self._engine = None

    def health(self, *, waiting: bool = True) -> Health:
        """Return who holds what and, if asked, what waits."""
        with _explained():
            found = self._opened().list_workflows(
                status=[*_WAITING, "PENDING"] if waiting else "PENDING",
                queue_name=QUEUE,
                load_input=False,
                load_output=False,
            )
        jobs = [(parse(item.workflow_id), item) for item in found]
        return Health(
            {job: item.queue_partition_key or "" for job, item in jobs if item.status in _WAITING},
            {job: item.executor_id or "" for job, item in jobs if item.status == "PENDING"},
        )

    def _deliver(self, job: Job, drive: Callable[[Job], None]) -> None:
        """Drive a job if this worker has a slot for it: the queue's limit is one for all workers,
        and a smaller worker gives back what is too much for it."""
        with self._lock:
            surplus = len(self._active) >= self._slots or job in self._active
            if not surplus:
                self._active.add(job)
        if surplus:
            self.retry(job)
            return
        try:
            drive(job)
        finally:
            with self._lock:
                self._active.discard(job)

    def _opened(self) -> DBOSClient:
        with self._lock:
            if self._client is None:
                self._client = DBOSClient(
                    system_database_url=self._url,
                    serializer=DBOSPortableJSONSerializer(),
                    system_database_pool_size=_CLIENT_POOL,
                    application_name=NAME,
                    retry_connection_errors=False,
                )
            return self._client


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Say that the queue cannot be reached without repeating the address, which has a password."""
    try:
        yield
    except (SQLAlchemyError, error.DBOSException, OSError) as found:
        raise StoreError(
            f"the queue of the fleet cannot be used ({type(found).__name__})",
            code="queue_failed",
            fix=["treadle fleet status"],
        ) from found
