"""The queue of a fleet: what any queue must do, and DBOS Transact, which does it."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from threading import Event, Lock
from typing import Any, NamedTuple, Protocol

import psycopg
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, error
from sqlalchemy.exc import SQLAlchemyError

from treadle.config.schema import FleetConfig
from treadle.errors import StoreError
from treadle.fleet.site import FleetSite


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


class QueueState(NamedTuple):
    """How the queue stands: the jobs that wait, and the holder of each other."""

    waiting: Collection[Job]
    held: Mapping[Job, str]


class Dispatcher(Protocol):
    """Queue runs, hand each to one worker at a time, and deliver again what was lost."""

    def submit(self, job: Job, priority: int) -> None:
        """Let a job wait; a smaller priority comes first."""

    def retry(self, *jobs: Job) -> None:
        """Deliver jobs again, because who had them is gone."""

    def work(self, slots: int, drive: Callable[[Job], None]) -> None:
        """Begin to take jobs, at most `slots` at a time, and return."""

    def drain(self) -> None:
        """Take no more jobs, and return when those at work are done."""

    def health(self, *, waiting: bool = True) -> QueueState:
        """Return who holds what and, if asked, what waits: that may be thousands."""


NAME = "treadle"
QUEUE = "runs"
WORKFLOW = "drive_run"
# Not the code's own digest: an upgrade must find the runs that the old version left waiting.
VERSION = "run-v1"
POOL = 4
_CLIENT_POOL = 2
_FOREVER = 10**8  # seconds; a drain ends when the runs do
_AGAIN = 0.25


class Dbos:
    """Queue, claim and re-deliver; what a run is, and whether it goes on, our own tables say."""

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
        self._working = Event()

    def submit(self, job: Job, priority: int) -> None:
        """Let a job wait; a second time changes nothing."""
        with _explained():
            self._opened().enqueue(
                {
                    "workflow_name": WORKFLOW,
                    "queue_name": QUEUE,
                    "workflow_id": job.id,
                    "app_version": VERSION,
                    "queue_partition_key": job.project,
                    "priority": priority + 1,
                },
                job.id,
            )

    def retry(self, *jobs: Job) -> None:
        """Put jobs back into the queue, whoever had them."""
        with _explained():
            self._opened().resume_workflows([job.id for job in jobs], queue_name=QUEUE)

    def work(self, slots: int, drive: Callable[[Job], None]) -> None:
        """Begin to take jobs."""
        self._slots = slots
        config: DBOSConfig = {
            "name": NAME,
            "system_database_url": self._url,
            "sys_db_pool_size": POOL,
            "db_engine_kwargs": self._lines(),
            "executor_id": self._worker,
            "application_version": VERSION,
            "serializer": DBOSPortableJSONSerializer(),
            "use_listen_notify": False,
            "max_executor_threads": slots + 4,
            "log_level": "CRITICAL",
        }
        with _explained():
            self._engine = DBOS(config=config)
            DBOS.workflow(name=WORKFLOW)(lambda name: self._deliver(parse_job(name), drive))
            DBOS.launch()
            DBOS.register_queue(
                QUEUE,
                worker_concurrency=slots,
                partition_concurrency=self._per_repository,
                polling_interval_sec=self._polling,
                on_conflict="always_update",
            )
        self._working.set()

    def drain(self) -> None:
        """Take no more jobs and wait for those at work."""
        self._working.clear()
        if self._engine:
            DBOS.destroy(workflow_completion_timeout_sec=_FOREVER)
            self._engine = None

    def health(self, *, waiting: bool = True) -> QueueState:
        """Return who holds what and, if asked, what waits."""
        with _explained():
            found = self._opened().list_workflows(
                status=["ENQUEUED", "PENDING"] if waiting else "PENDING",
                queue_name=QUEUE,
                load_input=False,
                load_output=False,
            )
        jobs = [(parse_job(item.workflow_id), item) for item in found]
        return QueueState(
            {job for job, item in jobs if item.status != "PENDING"},
            {job: item.executor_id or "" for job, item in jobs if item.status == "PENDING"},
        )

    def _lines(self) -> dict[str, Any]:
        """Say how the engine connects: SQLite needs nothing said."""
        if self._url.startswith("sqlite:"):
            return {}
        return {"creator": self._connect, "pool_timeout": _FOREVER}

    def _connect(self) -> psycopg.Connection[Any]:
        """Wait out an outage here: the engine itself would back off for up to a minute, and lets
        a run's thread die of errors that it does not know as an outage."""
        while True:
            try:
                return psycopg.connect(self._url, application_name=self._worker, connect_timeout=10)
            except psycopg.OperationalError:
                if not self._working.is_set():
                    raise
            time.sleep(_AGAIN)

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


def queue_of(site: FleetSite, config: FleetConfig, worker: str = "nobody") -> Dbos:
    """Return the queue of a fleet, for a worker or for whoever only asks and submits."""
    return Dbos(site.queue, worker, float(config.polling), config.per_repository)


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
