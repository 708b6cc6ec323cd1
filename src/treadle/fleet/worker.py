"""Be a worker: take runs from the queue, drive each in a clone of its own, leave in good order."""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import NamedTuple

from msgspec import structs

from treadle.config.schema import Config
from treadle.contract.event import EventType
from treadle.engine.elsewhere import adopt, archive, queue, restore
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.elsewhere.queue import Ticket
from treadle.engine.goals import require_sandbox
from treadle.engine.run import begin, resume
from treadle.engine.run import order as run_order
from treadle.engine.run.order import Order
from treadle.engine.run.progress import Progress, Watch
from treadle.engine.run.run import Archive, Run, Tools
from treadle.engine.run.run_files import Manifest
from treadle.engine.session import Interrupts
from treadle.engine.wheel import loop
from treadle.errors import ExitCode, FencedError, FormatError, GitError, TreadleError
from treadle.files import remove
from treadle.files.walk import names
from treadle.fleet.leader import Beat
from treadle.fleet.queue import Dispatcher, Job
from treadle.fleet.site import FleetSite
from treadle.git import remote, settings
from treadle.git.repo import Repo
from treadle.ids import utc
from treadle.layout import FleetLayout, Layout
from treadle.proc.keeper import Keeper
from treadle.project import key
from treadle.project import key as keys
from treadle.project.context import Context
from treadle.project.key import FleetKey
from treadle.store import fleet
from treadle.store.database.sqlite import WriteLock
from treadle.store.fleet import WorkerRow
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.tasks import claim, questions
from treadle.tasks.questions import Question
from treadle.text import plural


class Carrier:
    """The carrier of one run: archive first, then the row, then the branch.

    The branch follows the row because only the row is fenced: a worker that lost its run
    cannot write it, and so never pushes. Until then the archive holds the commit.
    """

    def __init__(self, shelf: Shelf, url: str) -> None:
        self._shelf = shelf
        self._url = url

    def save(self, run: Run, folder: Path, found: Manifest) -> Archive:
        """Upload a step's folder with the objects of its commit."""
        before, after = found.before.commit, found.after.commit
        pack = remote.pack(run.tools.repo, before, after) if before != after else None
        row = found.row
        step = archive.of_step(run.id, row.step_index, row.role)
        name = archive.name_of(step, run.row.claim_epoch)
        return archive.save(self._shelf, name, folder, pack, key.read(run.tools.env))

    def publish(self, run: Run, before: str, after: str) -> None:
        """Move the run's branch; a refusal stops the run, or is noted if it is over."""
        if before == after or run.row.branch is None:
            return
        try:
            remote.push(run.tools.repo, self._url, after, run.row.branch, before)
        except GitError as error:
            run.timeline.add(EventType.PUSH_REFUSED, error.message, code=error.code)
            if run.row.status == "running":
                run.end("stopped", error.code, error.message)
            else:
                run.record(push_refused=error.message)


# What somebody without the key wrote; no worker goes on with it, and none should be asked to.
_REFUSED = ("order_unsigned", "order_forged", "archive_forged", "row_forged")


class Machine(NamedTuple):
    """What every run of one worker shares."""

    worker: str
    layout: FleetLayout
    env: Mapping[str, str]
    keeper: Keeper
    max_epochs: int
    floor: Config
    now: Callable[[], datetime]
    watch: Watch
    draining: Event
    open_store: Callable[[str], Store]

    @property
    def owner(self) -> str:
        """Return how runs name this worker as their owner."""
        return f"{queue.WORKER}{self.worker}"


class Driver:
    """Drives jobs for a dispatcher; many threads at once, each with a clone of its own."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._lock = Lock()
        self._stores: dict[str, Store] = {}
        self.active: set[Job] = set()
        self.finished = 0

    def drive(self, job: Job) -> RunRow | None:
        """Drive a run until it is over or given back; None when it was not to be had."""
        with self._lock:
            if any(other.run_id == job.run_id for other in self.active):
                return None
            self.active.add(job)
        try:
            return self._drive(job)
        finally:
            with self._lock:
                self.active.discard(job)

    def store(self, project: str) -> Store:
        """Return a project's store, opened once."""
        with self._lock:
            if project not in self._stores:
                self._stores[project] = self._machine.open_store(project)
            return self._stores[project]

    def close(self) -> None:
        """Close every store."""
        for store in self._stores.values():
            store.close()

    def _drive(self, job: Job) -> RunRow | None:
        store = self.store(job.project)
        row = _claim(self._machine, store, job)
        if row is None:
            return None
        try:
            row = _work(self._machine, store, row, job.project)
        except FencedError:
            return None  # somebody else drives it now; it is theirs
        except TreadleError as error:
            if error.code == "store_unreachable":
                raise  # nothing can be written down; the leader finds the run without a job
            _stop(self._machine, store, row, error)
        self.finished += 1
        return row


def _claim(machine: Machine, store: Store, job: Job) -> RunRow | None:
    """Take the run over, so that nobody who had it can commit; None if it is not to be had."""
    row = store.run(job.run_id)
    kv = store.kv(job.run_id)
    if row is None or not queue.is_claimable(row, kv):
        return None
    epoch = fleet.claim(store, row, machine.owner)
    if epoch is None:
        return None
    row = row._replace(claim_epoch=epoch, owner=machine.owner)
    if row.status != "running" and not queue.is_queued(row, kv):
        return row  # it ended in the very moment in which its worker was lost; nobody was told
    tries = _tries(row, kv)
    if tries > machine.max_epochs:
        _give_up(machine, store, row, tries - 1)
        return None
    told = {"reason_code": None, "reason": None, queue.TRIES: [row.current_step_index, tries]}
    message = f"by {machine.worker}, epoch {epoch}"
    queue.record(store, row, EventType.RUN_CLAIMED, message, machine.now(), told, "running")
    return row._replace(status="running", ended_at=None)


def _tries(row: RunRow, kv: Mapping[str, object]) -> int:
    """Count the claims since the last committed step, this one included."""
    before = kv.get(queue.TRIES)
    if isinstance(before, list) and len(before) == 2 and before[0] == row.current_step_index:
        return int(before[1]) + 1
    return 1


class _Asked(NamedTuple):
    """What a run was asked to do, as signed, and as far as this worker goes along."""

    signed: Order
    held: Order
    ticket: Ticket
    key: FleetKey


def _work(machine: Machine, store: Store, row: RunRow, project: str) -> RunRow:
    asked = _asked(machine, store, row, project)
    with _attempt(machine, row) as folder:
        run = _open(machine, store, row, asked, folder)
        return loop.drive_run(run)


def _asked(machine: Machine, store: Store, row: RunRow, project: str) -> _Asked:
    """Believe an order only by its signature, and hold it to this worker's own configuration."""
    kv, key = store.kv(row.run_id), keys.read(machine.env)
    order, ticket = queue.order_of(row, kv, key), queue.ticket_of(row, kv, key)
    if ticket.project != project or order.script is not None:
        raise FormatError(
            f"run {row.run_id} was not queued for workers of {project}",
            code="order_forged",
            fix=[f"treadle runs show {row.run_id}"],
        )
    held = run_order.held_to(order, machine.floor)
    require_sandbox(held)
    return _Asked(order, held, ticket, key)


def _open(machine: Machine, store: Store, row: RunRow, asked: _Asked, folder: Path) -> Run:
    """Make clone, folder and workspace, and publish what an earlier worker could not."""
    ticket = asked.ticket
    repo = _clone(machine, row, ticket, folder / "repo")
    shelf = Shelf(ticket.artifacts)
    tools = _tools(machine, store, repo, Carrier(shelf, ticket.remote))
    restore.bring_commit(repo, store, row, asked.key)
    home = structs.replace(asked.held.workspace, root=str(folder / "space"))
    order = structs.replace(asked.held, workspace=home)
    restore.restore(tools.layout, store, row, order, asked.key)
    run = resume.load_run(tools, row)
    while run.row.status == "running" and adopt.adopt(run, shelf):
        pass
    _publish(run, ticket)
    if run.row.status == "running":
        if taken := run_order.lowered(asked.signed, asked.held):
            message = f"this worker's own configuration is stricter: {', '.join(taken)}"
            run.timeline.add(EventType.ORDER_HELD, message, keys=taken)
        if run.order.task_id:
            claim.begin_run(store, run.order.task_id, run.id, tools.now())
        begin.prepare(run)
    return run


def _publish(run: Run, ticket: Ticket) -> None:
    """Bring the run's branch elsewhere to its head, from wherever a dead worker left it."""
    name, base = run.row.branch or "", run.row.base_commit
    tip = remote.tip(run.tools.repo, ticket.remote, name)
    own = (None, base, *(step.after_commit for step in run.tools.store.steps(run.id)))
    if tip != run.head:  # where somebody else put it, the push is refused
        expected = tip if tip in own else base
        remote.push(run.tools.repo, ticket.remote, run.head, name, expected)


def _tools(machine: Machine, store: Store, repo: Repo, carrier: Carrier) -> Tools:
    layout = Layout(repo.root, store.mail.root)
    return Tools(
        project=Context(layout, repo, machine.env),
        store=store,
        keeper=machine.keeper,
        git_settings=settings.read(repo),
        now=machine.now,
        interrupted=lambda: None,
        watch=machine.watch,
        worker=machine.owner,
        carrier=carrier,
        yields=machine.draining.is_set,
    )


def _clone(machine: Machine, row: RunRow, ticket: Ticket, path: Path) -> Repo:
    mirror = machine.layout.mirror(ticket.remote)
    with contextlib.closing(WriteLock(mirror.with_suffix(".lock"))) as lock, lock:
        remote.mirror(ticket.remote, mirror)
    return remote.clone(ticket.remote, mirror, path, row.base_commit or "")


@contextlib.contextmanager
def _attempt(machine: Machine, row: RunRow) -> Iterator[Path]:
    """Hand out the folder of one attempt and remove it afterwards."""
    folder = machine.layout.attempt(row.run_id, row.claim_epoch)
    remove.remove_tree(folder)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        remove.remove_tree(folder)


def _stop(machine: Machine, store: Store, row: RunRow, error: TreadleError) -> None:
    """Stop a run that this worker cannot go on with, and tell a person."""
    row = store.run(row.run_id) or row
    if row.owner != machine.owner or row.status != "running":
        return
    kv = {"reason_code": error.code, "reason": error.message}
    refused = error.code in _REFUSED
    kind = EventType.ORDER_REFUSED if refused else EventType.RUN_STOPPED
    queue.record(store, row, kind, error.message, machine.now(), kv)
    if refused:
        _ask(machine, store, row, error.message, Action("answer", "look"))
    else:
        _ask(machine, store, row, error.message, Action("resume", target=questions.FLEET))
    store.release(row.run_id, row.claim_epoch)


def _give_up(machine: Machine, store: Store, row: RunRow, tries: int) -> None:
    """Fail a run that ends every worker it is given to."""
    message = f"the run lost {plural(tries, 'worker')} in a row after step"
    message = f"{message} {row.current_step_index}; it is not tried again"
    kv = {"reason_code": "gave_up", "reason": message}
    queue.record(store, row, EventType.GAVE_UP, message, machine.now(), kv, "failed")
    if row.task_id:
        claim.finish_run(store, row.task_id, row.run_id, "failed", machine.now())
    _ask(machine, store, row, message, Action("again", target=row.task_id))
    store.release(row.run_id, row.claim_epoch)


def _ask(machine: Machine, store: Store, row: RunRow, why: str, way: Action) -> None:
    question = Question(
        kind="failed_run",
        summary=f"{row.goal}: {why}",
        subject=Subject("run", row.run_id),
        actions=(way, LEAVE),
        look=(f"treadle runs show {row.run_id}",),
        run_id=row.run_id,
        task_id=row.task_id,
    )
    questions.ask(store, question, machine.now())


_LOOK = 0.1
_FORGET = timedelta(days=7)


class Wishes(NamedTuple):
    """How long a worker stays: for one run, until nothing came for a while, until a time."""

    slots: int
    once: bool = False
    idle_exit: float | None = None
    until: float | None = None


def new_id() -> str:
    """Return a name that no worker had and none will have."""
    return f"{os.uname().nodename[:40].lower()}-{secrets.token_hex(4)}"


def work_until_done(
    site: FleetSite,
    config: Config,
    wishes: Wishes,
    worker: str,
    dispatcher: Dispatcher,
    watch: Watch,
    env: Mapping[str, str],
) -> int:
    """Work until it is time to go; return how many runs were driven."""
    interrupts, draining = Interrupts(), Event()
    with Keeper() as keeper, interrupts.installed():
        machine = Machine(
            worker=worker,
            layout=FleetLayout(env, site.queue, worker),
            env=env,
            keeper=keeper,
            max_epochs=config.fleet.max_epochs,
            floor=config,
            now=lambda: beat.now(),
            watch=watch,
            draining=draining,
            open_store=lambda project: site.patient_store(project, float(config.fleet.patience)),
        )
        driver = Driver(machine)
        beat = Beat(worker, dispatcher, driver.active, site, config.fleet, _die, watch)
        store = beat.store
        _clean(machine.layout, store)
        _register(store, worker, wishes.slots)
        beat.start()  # first: until its engine runs, a worker could be taken for dead
        try:
            dispatcher.work(wishes.slots, partial(_told, watch, driver, dispatcher, draining))
            _stay(wishes, driver, beat, interrupts.reason)
            draining.set()
            fleet.set_status(store, worker, "draining")
            dispatcher.drain()
        finally:
            beat.end()
        fleet.set_status(store, worker, "left")
        beat.close()
    remove.remove_tree(machine.layout.work)
    driver.close()
    return driver.finished


def _told(watch: Watch, driver: Driver, dispatcher: Dispatcher, draining: Event, job: Job) -> None:
    """Deliver, and say what went wrong: the dispatcher would keep it to itself."""
    try:
        _deliver(driver, dispatcher, draining, job)
    except Exception as error:
        message = f"lost for now: {type(error).__name__}: {error}"
        watch(Progress(kind="note", run_id=job.run_id, message=f"run {job.run_id} {message}"))
        raise


def _deliver(driver: Driver, dispatcher: Dispatcher, draining: Event, job: Job) -> None:
    """Drive a job, or let another worker have it when this one is about to leave."""
    if draining.is_set():
        dispatcher.retry(job)
        return
    row = driver.drive(job)
    kv = driver.store(job.project).kv(job.run_id) if row else {}
    if row and queue.is_queued(row, kv):
        again = Job(job.project, job.run_id, row.claim_epoch)
        dispatcher.submit(again, queue.priority_of(kv))


def _stay(
    wishes: Wishes, driver: Driver, beat: Beat, interrupted: Callable[[], str | None]
) -> None:
    """Return when the worker should leave."""
    began = busy_at = time.monotonic()
    while not interrupted() and not beat.draining.is_set():
        time.sleep(_LOOK)
        now = time.monotonic()
        if driver.active:
            busy_at = now
        if wishes.once and driver.finished:
            return
        if wishes.idle_exit is not None and now - busy_at >= wishes.idle_exit:
            return
        if wishes.until is not None and now - began >= wishes.until:
            return


def _die() -> None:
    """Leave at once: this worker was declared dead and its runs are others' now.

    Nothing is flushed or closed on purpose; the agents end with this process, and whoever
    supervises it starts a new worker.
    """
    os._exit(ExitCode.LOCKED)


def _register(store: Store, worker: str, slots: int) -> None:
    now = store.now()
    row = WorkerRow(
        worker_id=worker,
        host=os.uname().nodename,
        pid=os.getpid(),
        slots=slots,
        busy=0,
        status="alive",
        started_at=utc(now),
        beat_at=utc(now),
    )
    fleet.register(store, row, utc(now - _FORGET))


def _clean(layout: FleetLayout, store: Store) -> None:
    """Remove what workers of this machine left that are gone for good."""
    found = set(names(layout.workers))  # first: who comes now is listed before it has a folder
    for name in found - {row.worker_id for row in fleet.living(store)}:
        remove.remove_tree(layout.workers / name)
