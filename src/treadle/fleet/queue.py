"""Hand runs to the fleet: what any queue must do, and DBOS Transact, which does it."""

import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from threading import Event, Lock
from typing import Any, NamedTuple, Protocol

import msgspec
import psycopg
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, error
from sqlalchemy.exc import SQLAlchemyError

from treadle.config.load import Loaded
from treadle.config.schema import FleetConfig
from treadle.engine import letters
from treadle.engine.elsewhere import archive, fleet_run
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.elsewhere.fleet_run import Ticket
from treadle.engine.run import begin
from treadle.engine.run.order import Order
from treadle.errors import BlockedError, ConfigError, StoreError, TreadleError
from treadle.fleet.site import FleetSite
from treadle.git import remote, repo
from treadle.ids import new_run_id, utc
from treadle.mail import effect
from treadle.project import key as keys
from treadle.project import trust
from treadle.project.context import Context
from treadle.project.key import FleetKey
from treadle.store import fleet
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.tasks import claim


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


class Desk(NamedTuple):
    """What every submission of one command shares."""

    project: Context
    loaded: Loaded
    site: FleetSite
    store: Store
    dispatcher: Dispatcher | None
    priority: int = 0


def submit(desk: Desk, asked: Order) -> RunRow:
    """Queue a run; it is in the store before anything else knows of it."""
    if asked.script is not None:
        raise BlockedError(
            "a script routine works in the project itself, not in the fleet",
            code="not_for_fleet",
            fix=["treadle process"],
        )
    begin.check_possible(asked)
    _check_free(desk, asked.task_id)
    key = sealing(desk.site, desk.project.env)
    now, ticket = desk.store.now(), _ticket(desk)
    row = _row(desk, asked, now)
    try:
        _publish_base(desk, row, asked, ticket, now)
    except TreadleError:
        _take_back(desk, row, ticket)
        raise
    _announce(desk, ticket, now)
    fleet_run.insert(desk.store, row, asked, ticket, key, now)
    if asked.task_id and desk.site.url:
        mail = desk.project.layout.mail
        effect.refresh(desk.store, mail, now)
        letters.hand_over(desk.store, mail, row)
    enqueue(desk, row, ticket)
    return row


def resume(desk: Desk, row: RunRow, changed: Order | None) -> RunRow:
    """Queue a stopped run of the fleet again, with raised budgets if need be."""
    key = sealing(desk.site, desk.project.env)
    ticket = fleet_run.ticket_of(row, desk.store.kv(row.run_id), key)
    more: dict[str, object] = {fleet_run.TRIES: None}
    if changed:
        more |= fleet_run.signed(row, changed, ticket, key)
    waiting = fleet_run.requeue(desk.store, row, "resumed", desk.store.now(), more)
    if waiting is None:
        raise BlockedError(
            f"run {row.run_id} has just been changed by someone else",
            code="still_running",
            fix=[f"treadle runs show {row.run_id}"],
        )
    enqueue(desk, waiting, ticket)
    return waiting


def sealing(site: FleetSite, env: Mapping[str, str]) -> FleetKey:
    """Return the key of a fleet; one that stays on this machine makes its own."""
    root = site.layout.root if site.layout else None
    return keys.read(env, root) if site.url else keys.make(env, root)


def enqueue(desk: Desk, row: RunRow, ticket: Ticket) -> None:
    """Tell the dispatcher; if it cannot be told now, the leader of the workers will."""
    if desk.dispatcher is None:
        return
    job = Job(ticket.project, row.run_id, row.claim_epoch)
    with contextlib.suppress(StoreError):
        desk.dispatcher.submit(job, ticket.priority)


def _check_free(desk: Desk, task_id: str | None) -> None:
    """Refuse a task that a run waits or works for already."""
    task = desk.store.task(task_id) if task_id else None
    row = desk.store.run(task.claim_id) if task and task.claim_id else None
    if row and (row.status == "running" or fleet_run.is_queued(row, desk.store.kv(row.run_id))):
        raise BlockedError(
            f"run {row.run_id} waits or works for {task_id} already",
            code="still_running",
            fix=[f"treadle runs show {row.run_id}", f"treadle stop {row.run_id}"],
        )


def _publish_base(desk: Desk, row: RunRow, asked: Order, ticket: Ticket, now: datetime) -> None:
    """Bring to where workers find it what they need, and claim the task."""
    remote.push(desk.project.repo, ticket.remote, row.base_commit or "", row.branch or "", None)
    place = f"{archive.folder(row.run_id)}order.json"
    Shelf(ticket.artifacts).put(place, msgspec.json.encode(asked))
    if asked.task_id:
        claim.begin_run(desk.store, asked.task_id, row.run_id, now)


def _take_back(desk: Desk, row: RunRow, ticket: Ticket) -> None:
    """Leave nothing of a run that cannot be queued, as far as it can be reached."""
    with contextlib.suppress(TreadleError):
        remote.push(desk.project.repo, ticket.remote, "", row.branch or "", row.base_commit)
    with contextlib.suppress(TreadleError):
        Shelf(ticket.artifacts).remove(archive.folder(row.run_id))


def _announce(desk: Desk, ticket: Ticket, now: datetime) -> None:
    """Let the workers look for this project's runs."""
    with desk.site.fleet() as store:
        fleet.add_project(store, ticket.project, ticket.remote, utc(now))


def _ticket(desk: Desk) -> Ticket:
    config = desk.loaded.config
    return Ticket(
        project=desk.site.project,
        remote=remote.url_of(desk.project.repo, config.fleet.remote),
        artifacts=_artifacts(desk),
        priority=desk.priority,
        fingerprint=_fingerprint(desk),
    )


def _artifacts(desk: Desk) -> str:
    if url := desk.loaded.config.artifacts:
        return url
    if desk.site.url:
        raise ConfigError(
            "artifacts is not set: workers on other machines need a place for a run's files",
            details={"key": "artifacts"},
            fix=["export TREADLE_ARTIFACTS=s3://bucket/prefix"],
        )
    return f"file://{desk.project.layout.archives}"


def _fingerprint(desk: Desk) -> str:
    """Return the digest of the configuration that the user trusted when the run was queued."""
    said = [desk.loaded.config, trust.commands(desk.loaded)]
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()


def _row(desk: Desk, asked: Order, now: datetime) -> RunRow:
    head = repo.head(desk.project.repo)
    run_id = new_run_id(now, desk.store.last_run_id(), secrets.randbits(24))
    layout = desk.project.layout
    return RunRow(
        run_id=run_id,
        created_at=utc(now),
        goal=asked.goal,
        status="stopped",
        iteration=1,
        current_step_index=0,
        verdict=None,
        run_dir=layout.relative(layout.run(run_id).folder),
        task_id=asked.task_id,
        message_id=asked.message.id if asked.message else None,
        routine=asked.message.routine if asked.message else "develop",
        base_commit=head.commit,
        base_branch=head.branch,
        branch=asked.workspace.branch.format(run_id=run_id),
        head_commit=head.commit,
    )
