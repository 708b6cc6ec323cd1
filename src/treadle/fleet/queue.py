"""Hand runs to the fleet: what its queue does, by DBOS Transact, and how a run gets into it."""

import contextlib
import functools
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from threading import Event
from typing import Any, NamedTuple

import msgspec
import psycopg
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, error
from msgspec import structs
from sqlalchemy.exc import SQLAlchemyError

from treadle.config.schema import Config, FleetConfig
from treadle.engine import letters
from treadle.engine.elsewhere import archive, fleet_run
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.elsewhere.fleet_run import FleetOrder, Ticket
from treadle.engine.run import begin, memory
from treadle.engine.run.order import Order
from treadle.errors import BlockedError, ConfigError, StoreError, TreadleError
from treadle.fleet.site import FleetSite
from treadle.git import remote, repo
from treadle.ids import utc
from treadle.mail import effect
from treadle.project import key as keys
from treadle.project.context import Context
from treadle.project.key import FleetKey
from treadle.store import fleet
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.tasks import claim

_NAME = "treadle"
_QUEUE = "runs"
_WORKFLOW = "drive_run"
# Not the code's own digest: an upgrade must find the runs that the old version left waiting.
_VERSION = "run-v1"
_POOL = 4
_CLIENT_POOL = 2
_FOREVER = 10**8  # seconds; a drain ends when the runs do
_AGAIN = 0.25


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


class Dbos:
    """Queue runs, hand each to one worker at a time, and deliver again what was lost.

    What a run is, and whether it goes on, our own tables say.
    """

    def __init__(self, url: str, worker: str, polling: float, per_repository: int) -> None:
        self._url = url
        self._worker = worker
        self._polling = polling
        self._per_repository = per_repository
        self._working = Event()

    def submit(self, job: Job, priority: int) -> None:
        """Let a job wait; a smaller priority comes first, and a second time changes nothing."""
        with _explained():
            self._client.enqueue(
                {
                    "workflow_name": _WORKFLOW,
                    "queue_name": _QUEUE,
                    "workflow_id": job.id,
                    "app_version": _VERSION,
                    "queue_partition_key": job.project,
                    "priority": priority + 1,
                },
                job.id,
            )

    def retry(self, *jobs: Job) -> None:
        """Deliver jobs again, whoever had them."""
        with _explained():
            self._client.resume_workflows([job.id for job in jobs], queue_name=_QUEUE)

    def work(self, slots: int, drive: Callable[[Job], None]) -> None:
        """Begin to take jobs, and return.

        The number of slots is one for all workers: the one of the worker that came last.
        """
        shared = {"creator": self._connect, "pool_timeout": _FOREVER}
        config: DBOSConfig = {
            "name": _NAME,
            "system_database_url": self._url,
            "sys_db_pool_size": _POOL,
            "db_engine_kwargs": {} if self._url.startswith("sqlite:") else shared,
            "executor_id": self._worker,
            "application_version": _VERSION,
            "serializer": DBOSPortableJSONSerializer(),
            "use_listen_notify": False,
            "max_executor_threads": slots + 4,
            "log_level": "CRITICAL",
        }
        with _explained():
            DBOS(config=config)
            DBOS.workflow(name=_WORKFLOW)(lambda name: drive(parse_job(name)))
            DBOS.launch()
            DBOS.register_queue(
                _QUEUE,
                worker_concurrency=slots,
                partition_concurrency=self._per_repository,
                polling_interval_sec=self._polling,
                on_conflict="always_update",
            )
        self._working.set()

    def drain(self) -> None:
        """Take no more jobs, and return when those at work are done."""
        if self._working.is_set():
            self._working.clear()
            DBOS.destroy(workflow_completion_timeout_sec=_FOREVER)

    def health(self, *, waiting: bool = True) -> QueueState:
        """Return who holds what and, if asked, what waits: that may be thousands."""
        with _explained():
            found = self._client.list_workflows(
                status=["ENQUEUED", "PENDING"] if waiting else "PENDING",
                queue_name=_QUEUE,
                load_input=False,
                load_output=False,
            )
        jobs = [(parse_job(item.workflow_id), item) for item in found]
        return QueueState(
            {job for job, item in jobs if item.status != "PENDING"},
            {job: item.executor_id or "" for job, item in jobs if item.status == "PENDING"},
        )

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

    @functools.cached_property
    def _client(self) -> DBOSClient:
        return DBOSClient(
            system_database_url=self._url,
            serializer=DBOSPortableJSONSerializer(),
            system_database_pool_size=_CLIENT_POOL,
            application_name=_NAME,
            retry_connection_errors=False,
        )


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
    config: Config
    site: FleetSite
    store: Store
    dispatcher: Dbos
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
    now, whole = desk.store.now(), FleetOrder(order=asked, ticket=_ticket(desk))
    head = repo.head(desk.project.repo)
    row = begin.new_row(desk.project.layout, desk.store, asked, now, head)
    try:
        _publish(desk, row, whole, now)
    except TreadleError:
        _take_back(desk, row, whole.ticket)
        raise
    with desk.site.fleet() as store:
        fleet.add_project(store, whole.ticket.project, whole.ticket.remote, utc(now))
    fleet_run.insert(desk.store, row, whole, key)
    if asked.task_id and desk.site.url:
        mail = desk.project.layout.mail
        effect.refresh(desk.store, mail, now)
        letters.hand_over(desk.store, mail, row)
    _enqueue(desk, row, whole.ticket)
    return row


def resume(desk: Desk, row: RunRow, budgets: Mapping[str, float]) -> RunRow:
    """Queue a stopped run of the fleet again, with raised budgets if need be."""
    known = memory.recall(desk.store, row.run_id)
    if row.status != "stopped" or not known.is_of_fleet or memory.is_queued(row, known):
        raise BlockedError(
            f"run {row.run_id} is not a stopped run of the fleet",
            code="not_resumable",
            fix=[f"treadle runs show {row.run_id}", f"treadle run --resume {row.run_id}"],
        )
    key = sealing(desk.site, desk.project.env)
    asked = fleet_run.order_of(row, known, key)
    others = {**known.others, **fleet_run.signed(row, _raised(asked, budgets), key)}
    waiting = fleet_run.requeue(desk.store, row, "resumed", tries=None, others=others)
    if waiting is None:
        raise BlockedError(
            f"run {row.run_id} has just been changed by someone else",
            code="still_running",
            fix=[f"treadle runs show {row.run_id}"],
        )
    _enqueue(desk, waiting, asked.ticket)
    return waiting


def sealing(site: FleetSite, env: Mapping[str, str]) -> FleetKey:
    """Return the key of a fleet; one that stays on this machine makes its own."""
    root = site.layout.root if site.layout else None
    return keys.read(env, root) if site.url else keys.make(env, root)


def _raised(asked: FleetOrder, budgets: Mapping[str, float]) -> FleetOrder:
    raised = structs.replace(asked.order.budgets, **budgets)
    return structs.replace(asked, order=structs.replace(asked.order, budgets=raised))


def _enqueue(desk: Desk, row: RunRow, ticket: Ticket) -> None:
    """Tell the dispatcher; if it cannot be told now, the leader of the workers will."""
    with contextlib.suppress(StoreError):
        job = Job(ticket.project, row.run_id, row.claim_epoch)
        desk.dispatcher.submit(job, ticket.priority)


def _check_free(desk: Desk, task_id: str | None) -> None:
    """Refuse a task that a run waits or works for already."""
    task = desk.store.task(task_id) if task_id else None
    row = desk.store.run(task.claim_id) if task and task.claim_id else None
    if row is None:
        return
    if row.status == "running" or memory.is_queued(row, memory.recall(desk.store, row.run_id)):
        raise BlockedError(
            f"run {row.run_id} waits or works for {task_id} already",
            code="still_running",
            fix=[f"treadle runs show {row.run_id}", f"treadle stop {row.run_id}"],
        )


def _publish(desk: Desk, row: RunRow, whole: FleetOrder, now: datetime) -> None:
    """Bring to where workers find it what they need, and claim the task."""
    asked, ticket = whole.order, whole.ticket
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


def _ticket(desk: Desk) -> Ticket:
    if not desk.config.artifacts and desk.site.url:
        raise ConfigError(
            "artifacts is not set: workers on other machines need a place for a run's files",
            details={"key": "artifacts"},
            fix=["export TREADLE_ARTIFACTS=s3://bucket/prefix"],
        )
    return Ticket(
        project=desk.site.project,
        remote=remote.url_of(desk.project.repo, desk.config.fleet.remote),
        artifacts=desk.config.artifacts or f"file://{desk.project.layout.archives}",
        priority=desk.priority,
    )
