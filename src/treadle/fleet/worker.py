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
from treadle.contract import EventType
from treadle.engine.elsewhere import archive, fleet_run
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.elsewhere.fleet_run import Ticket
from treadle.engine.goals import require_sandbox
from treadle.engine.lock import MAIL
from treadle.engine.recovery import recover
from treadle.engine.run import begin, memory, resume
from treadle.engine.run import order as run_order
from treadle.engine.run.memory import Progress, Watch
from treadle.engine.run.order import Order
from treadle.engine.run.run import Archive, Run, Tools
from treadle.engine.run.run_files import Manifest
from treadle.engine.session import Interrupts
from treadle.engine.wheel import end, loop
from treadle.engine.wheel.commit import Finished
from treadle.errors import ExitCode, FencedError, FormatError, GitError, TreadleError
from treadle.files import beneath
from treadle.files.walk import names
from treadle.fleet.leader import Beat
from treadle.fleet.queue import Dispatcher, Job
from treadle.fleet.site import FleetSite
from treadle.git import remote, settings
from treadle.git.repo import Repo
from treadle.ids import utc
from treadle.layout import FleetLayout, Layout
from treadle.proc.keeper import Keeper
from treadle.project import key as keys
from treadle.project.context import Context
from treadle.project.key import FleetKey
from treadle.store import fleet
from treadle.store.fleet import WorkerRow
from treadle.store.runs import RunRow
from treadle.store.sqlite import WriteLock
from treadle.store.store import Store
from treadle.tasks import claim
from treadle.text import plural

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
        return f"{fleet_run.WORKER}{self.worker}"


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
    if row is None or not fleet_run.is_claimable(row, kv):
        return None
    epoch = fleet.claim(store, row, machine.owner)
    if epoch is None:
        return None
    row = row._replace(claim_epoch=epoch, owner=machine.owner)
    if row.status != "running" and not fleet_run.is_queued(row, kv):
        return row  # it ended in the very moment in which its worker was lost; nobody was told
    tries = _tries(row, kv)
    if tries > machine.max_epochs:
        _give_up(machine, store, row, tries - 1)
        return None
    told = {"reason_code": None, "reason": None, fleet_run.TRIES: [row.current_step_index, tries]}
    message = f"by {machine.worker}, epoch {epoch}"
    fleet_run.record(store, row, EventType.RUN_CLAIMED, message, machine.now(), told, "running")
    return row._replace(status="running", ended_at=None)


def _tries(row: RunRow, kv: Mapping[str, object]) -> int:
    """Count the claims since the last committed step, this one included."""
    before = kv.get(fleet_run.TRIES)
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
        return _drive(machine, run, asked)


def _drive(machine: Machine, run: Run, asked: _Asked) -> RunRow:
    """Take steps as everybody does, but upload each before its row and publish it afterwards.

    The branch follows the row because only the row is fenced: a worker that lost its run
    cannot write it, and so never pushes. Until then the archive holds the commit.
    """
    shelf = Shelf(asked.ticket.artifacts)
    for role in loop.turns(run):
        if machine.draining.is_set():
            fleet_run.give_back(run, "the worker drains")
            run.tools.store.release(run.id, run.row.claim_epoch)
            return run.row
        if done := loop.take_step(run, role):
            loop.record_step(run, done, _upload(run, shelf, done, asked.key))
            _publish(run, asked.ticket.remote, done.found)
    return loop.finish_run(run)


def _upload(run: Run, shelf: Shelf, done: Finished, key: FleetKey) -> Archive:
    """Keep a step's folder, with the objects of its commit, where other machines find it."""
    found = done.found
    before, after = found.before.commit, found.after.commit
    pack = remote.pack(run.tools.repo, before, after) if before != after else None
    step = archive.of_step(run.id, found.row.step_index, found.row.role)
    name = archive.name_of(step, run.row.claim_epoch)
    return archive.save(shelf, name, done.stage.final, pack, key)


def _publish(run: Run, url: str, found: Manifest) -> None:
    """Move the run's branch elsewhere; a refusal stops the run, or is noted if it is over."""
    before, after = found.before.commit, found.after.commit
    if before == after or run.row.branch is None:
        return
    try:
        remote.push(run.tools.repo, url, after, run.row.branch, before)
    except GitError as error:
        run.timeline.add(EventType.PUSH_REFUSED, error.message, code=error.code)
        if run.row.status == "running":
            run.end("stopped", error.code, error.message)
        else:
            run.record(push_refused=error.message)


def _asked(machine: Machine, store: Store, row: RunRow, project: str) -> _Asked:
    """Believe an order only by its signature, and hold it to this worker's own configuration."""
    kv, key = store.kv(row.run_id), keys.read(machine.env)
    order, ticket = fleet_run.order_of(row, kv, key), fleet_run.ticket_of(row, kv, key)
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
    tools = _tools(machine, store, repo)
    fleet_run.bring_commit(repo, store, row, asked.key)
    home = structs.replace(asked.held.workspace, root=str(folder / "space"))
    order = structs.replace(asked.held, workspace=home)
    fleet_run.restore(tools.layout, store, row, order, asked.key)
    run = resume.load_run(tools, row)
    while run.row.status == "running" and recover.adopt_uploaded(run, shelf):
        pass
    _catch_up(run, ticket.remote)
    if run.row.status == "running":
        if taken := run_order.lowered(asked.signed, asked.held):
            message = f"this worker's own configuration is stricter: {', '.join(taken)}"
            run.timeline.add(EventType.ORDER_HELD, message, keys=taken)
        if run.order.task_id:
            claim.begin_run(store, run.order.task_id, run.id, tools.now())
        begin.prepare(run)
    return run


def _catch_up(run: Run, url: str) -> None:
    """Bring the run's branch elsewhere to its head, from wherever a dead worker left it."""
    name, base = run.row.branch or "", run.row.base_commit
    tip = remote.tip(run.tools.repo, url, name)
    own = (None, base, *(step.after_commit for step in run.tools.store.steps(run.id)))
    if tip != run.head:  # where somebody else put it, the push is refused
        expected = tip if tip in own else base
        remote.push(run.tools.repo, url, run.head, name, expected)


def _tools(machine: Machine, store: Store, repo: Repo) -> Tools:
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
    beneath.remove_tree(folder)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        beneath.remove_tree(folder)


def _stop(machine: Machine, store: Store, row: RunRow, error: TreadleError) -> None:
    """Stop a run that this worker cannot go on with."""
    row = store.run(row.run_id) or row
    if row.owner != machine.owner or row.status != "running":
        return
    kind = EventType.ORDER_REFUSED if error.code in _REFUSED else EventType.RUN_STOPPED
    _end(machine, store, row._replace(status="stopped"), kind, error.code, error.message)


def _give_up(machine: Machine, store: Store, row: RunRow, tries: int) -> None:
    """Fail a run that ends every worker it is given to."""
    message = f"the run lost {plural(tries, 'worker')} in a row after step"
    message = f"{message} {row.current_step_index}; it is not tried again"
    _end(machine, store, row._replace(status="failed"), EventType.GAVE_UP, "gave_up", message)


def _end(
    machine: Machine, store: Store, row: RunRow, kind: EventType, code: str, message: str
) -> None:
    """End a run whose folder is not here; its letters are sent from the project's own machine."""
    now, kv = machine.now(), {"reason_code": code, "reason": message}
    fleet_run.record(store, row, kind, message, now, kv, row.status)
    end.tell_desk(store, row, memory.recall(store, row.run_id), now)
    has_report = row.task_id and code not in _REFUSED
    store.release(row.run_id, row.claim_epoch, MAIL if has_report else None)


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
    beneath.remove_tree(machine.layout.work)
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
    if row and fleet_run.is_queued(row, kv):
        again = Job(job.project, job.run_id, row.claim_epoch)
        dispatcher.submit(again, fleet_run.priority_of(kv))


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
        beneath.remove_tree(layout.workers / name)
