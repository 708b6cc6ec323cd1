"""Be a worker: take runs from the queue, drive each in a clone of its own, leave in good order."""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event, Lock
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct, field, structs

from treadle.config.schema import Config
from treadle.contract import Role, RunStatus
from treadle.contract.events import EventType, NewEvent, StepError
from treadle.engine.elsewhere import archive, fleet_run
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.elsewhere.fleet_run import FleetOrder, Ticket
from treadle.engine.goals import require_sandbox
from treadle.engine.interrupts import Interrupts
from treadle.engine.lock import MAIL
from treadle.engine.recovery import recover
from treadle.engine.run import begin, memory, resume
from treadle.engine.run import order as run_order
from treadle.engine.run.memory import ClaimCount, Progress, RunMemory
from treadle.engine.run.order import Order
from treadle.engine.run.run import Archive, Run, Tools
from treadle.engine.run.run_files import Manifest
from treadle.engine.wheel import end, loop
from treadle.engine.wheel.commit import Finished
from treadle.errors import (
    ConfigError,
    ExitCode,
    FencedError,
    FormatError,
    GitError,
    StoreError,
    TreadleError,
)
from treadle.files import beneath
from treadle.files.walk import names
from treadle.fleet import metrics, trouble
from treadle.fleet.leader import Beat
from treadle.fleet.metrics import Counts
from treadle.fleet.queue import Job, Queue
from treadle.fleet.site import FleetSite
from treadle.fleet.trouble import Fitness, Room, Standstill
from treadle.git import remote
from treadle.git.repo import Repo, read_settings
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
from treadle.tasks.questions import FORGED
from treadle.text import plural

T = TypeVar("T")


class Log(Protocol):
    """Writes down moments of runs, and in which slot of a worker they are driven."""

    def __call__(self, moment: Progress, *, slot: int | None) -> None:
        """Write one moment down."""


class Wishes(NamedTuple):
    """How long a worker stays: for one run, until nothing came for a while, until a time."""

    slots: int
    once: bool = False
    idle_exit: float | None = None
    until: float | None = None
    metrics: str | None = None
    projects: frozenset[str] = frozenset()  # those it serves; none named means all
    labels: frozenset[str] = frozenset()  # what runs may need of it

    @property
    def serves(self) -> str | None:
        """Say in a few words which runs it takes, if not all that need nothing."""
        named = (("projects", self.projects), ("labels", self.labels))
        return "; ".join(f"{what} {', '.join(sorted(it))}" for what, it in named if it) or None


class Worker(Struct, kw_only=True):
    """Drives runs for the queue, many at once, each in a clone of its own."""

    name: str
    site: FleetSite
    config: Config
    wishes: Wishes
    dispatcher: Queue
    keeper: Keeper
    log: Log
    env: Mapping[str, str]
    health: Fitness
    room: Room
    counts: Counts
    draining: Event = field(default_factory=Event)
    active: set[Job] = field(default_factory=set)
    finished: int = 0
    _stores: dict[str, Store] = field(default_factory=dict)
    _slot_of: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _lacked: set[str] = field(default_factory=lambda: {""})  # what it has said

    @property
    def owner(self) -> str:
        """Return how runs name this worker as their owner."""
        return f"{fleet_run.WORKER}{self.name}"

    @property
    def layout(self) -> FleetLayout:
        """Return where this worker keeps its clones."""
        return FleetLayout(self.env, self.site.queue, self.name)

    def deliver(self, job: Job) -> bool | None:
        """Drive a job; False if another worker should have it, None if only others can."""
        try:
            known = self._recall(job)
            if known is None:
                return True  # its project was removed, or the run called off
            is_served = self._serves(job, known) and not self.health.trouble_of(job.project)
            if is_served and self._take(job):
                with self._counted(job, known) as is_within:
                    if is_within:
                        self._drive(job)
                        return True
            self.counts.add("retries_total")
            return False if is_served else None
        except Exception as error:  # the dispatcher would keep it to itself
            self.note(job.run_id, f"lost for now: {type(error).__name__}: {error}")
            if isinstance(error, StoreError) and error.code == "store_unreachable":
                return False  # whatever it was has passed when the queue can be told
            raise

    def is_fit(self) -> bool:
        """Tell whether this worker takes runs at all now."""
        return not self.draining.is_set() and not self.health.trouble_of()

    def _serves(self, job: Job, known: RunMemory) -> bool:
        """Tell whether this worker takes runs of the project, and has what this one needs."""
        if self.wishes.projects and job.project not in self.wishes.projects:
            return False
        lacks = ", ".join(sorted(fleet_run.needs_of(known) - self.wishes.labels - self._keys()))
        if lacks not in self._lacked:
            self._lacked.add(lacks)
            self.note(job.run_id, f"is left, as all like it, to workers that have {lacks}")
        return not lacks

    def _keys(self) -> set[str]:
        """Return the keys it has; another fleet, with another key, may use the same database."""
        try:
            return keys.read(self.env).labels
        except ConfigError as error:
            self.health.failed(error.code, error.message)
            return set()

    def _recall(self, job: Job) -> RunMemory | None:
        """Return what is known of a job's run, if the run is still there and anybody's to take."""
        with self.site.reader(job.project) as store:
            row, known = store.run(job.run_id), memory.recall(store, job.run_id)
            return known if row and fleet_run.is_claimable(row, known) else None

    @contextlib.contextmanager
    def _counted(self, job: Job, known: RunMemory) -> Iterator[bool]:
        """Count a run at its providers while it is driven; False if one of them has enough."""
        name, limits = f"{job.project}/{job.run_id}", self.config.fleet.limits
        most = {it: limits[it] for it in sorted(fleet_run.providers_of(known) & set(limits))}
        if not most:
            yield True
            return
        with self.site.fleet() as store:
            full = fleet.use(store, self.name, name, most)
        try:
            yield full is None
        finally:
            if full:
                self._leave(job)
            with self.site.fleet(float(self.config.fleet.patience)) as store:
                fleet.end_use(store, self.name, name)

    def note(self, run_id: str, message: str) -> None:
        """Say something of a run in this worker's log."""
        self.watch(Progress(kind="note", run_id=run_id, message=f"run {run_id} {message}"))

    def patiently(self, run_id: str, do: Callable[[], T]) -> T:
        """Do what finished work depends on, as soon as trouble has passed."""
        patience = float(self.config.fleet.patience)
        return trouble.wait_out(do, patience, self.draining, partial(self.note, run_id))

    def befalls(self, error: Exception, since: float) -> str | None:
        """Name the trouble if it lies with this machine, or passes, rather than with the run."""
        return trouble.kind_of(error) or ("disk_full" if self.room.was_full(since) else None)

    def close(self) -> None:
        """Close every store."""
        for store in self._stores.values():
            store.close()

    def _take(self, job: Job) -> bool:
        with self._lock:
            runs = {other.run_id for other in self.active}
            if job.run_id in runs or not self.is_fit():
                return False
            self.active.add(job)
            taken = set(self._slot_of.values())
            self._slot_of[job.run_id] = next(it for it in count(1) if it not in taken)
            return True

    def watch(self, moment: Progress) -> None:
        """Write a moment of a run into the log, with the slot it has, and count it."""
        self.counts.note(moment)
        self.room.was_full()
        self.log(moment, slot=self._slot_of.get(moment.run_id))

    def metrics(self) -> Iterator[str]:
        """Yield this worker's own numbers."""
        yield f"treadle_worker_slots {self.wishes.slots}"
        yield f"treadle_worker_busy {len(self.active)}"
        yield f"treadle_worker_quarantined {int(self.health.trouble is not None)}"
        yield f"treadle_worker_failures_total {self.health.failures}"
        yield from self.counts.lines()

    def _drive(self, job: Job) -> None:
        """Drive a run until it is over or given back, and queue it again if it was."""
        try:
            store = self._store(job.project)
            row = self._work(store, job)
            known = memory.recall(store, job.run_id)
        finally:
            self._leave(job)
        if row and memory.is_queued(row, known):
            again = Job(job.project, job.run_id, row.claim_epoch)
            self.dispatcher.submit(again, fleet_run.priority_of(known))

    def _leave(self, job: Job) -> None:
        """Free a slot; a project without a run here needs no lines to the database."""
        with self._lock:
            self.active.discard(job)
            self._slot_of.pop(job.run_id, None)
            is_last = all(other.project != job.project for other in self.active)
            store = self._stores.pop(job.project, None) if is_last else None
        if store:
            store.close()

    def _store(self, project: str) -> Store:
        with self._lock:
            if project not in self._stores:
                patience = float(self.config.fleet.patience)
                self._stores[project] = self.site.store(project, patience)
            return self._stores[project]

    def _work(self, store: Store, job: Job) -> RunRow | None:
        """Claim a run and take its steps; None when it was not to be had."""
        trouble.upload_parked(self.layout.parked)  # it may be this very run's
        row = _claim(self, store, job)
        if row is None:
            return None
        self.counts.add("claims_total")
        began = time.monotonic()
        try:
            row = _go_on(self, store, row, job.project)
        except FencedError:
            return None  # somebody else drives it now; it is theirs
        except (TreadleError, OSError) as error:
            if kind := self.befalls(error, began):
                whose = "" if self.room.was_full(began) else job.project
                self.health.failed(kind, str(error), whose)
                return _let_go(self, store, row, str(error), kind)
            if isinstance(error, OSError) or error.code == "store_unreachable":
                raise  # nothing can be written down; the leader finds the run without a job
            _stop(self, store, row, error)
        self.finished += 1
        return row


def _claim(worker: Worker, store: Store, job: Job) -> RunRow | None:
    """Take the run over, so that nobody who had it can commit; None if it is not to be had.

    A worker that stood still may have lost the job meanwhile. It looks after it has read the row:
    if it is robbed after that, the row has changed.
    """
    row, known = store.run(job.run_id), memory.recall(store, job.run_id)
    held = worker.dispatcher.health(waiting=False, holder=worker.name).held
    if row is None or job not in held or not fleet_run.is_claimable(row, known):
        return None
    if row.status != "running" and not memory.is_queued(row, known):
        # It ended in the very moment in which its worker was lost; nobody was told.
        epoch = fleet.claim(store, row, worker.owner)
        return row._replace(claim_epoch=epoch, owner=worker.owner) if epoch else None
    at, before = row.current_step_index, known.tries
    claims = before.claims + 1 if before and before.step_index == at else 1
    if claims > worker.config.fleet.max_epochs:
        _give_up(worker, store, row, claims - 1)
        return None
    told = f"by {worker.name}, epoch {row.claim_epoch + 1}"
    kept: dict[str, Any] = {"reason_code": None, "reason": None, "tries": ClaimCount(at, claims)}
    kind = EventType.RUN_CLAIMED
    return fleet_run.take(store, row, worker.owner, kind, told, "running", **kept)


def _go_on(worker: Worker, store: Store, row: RunRow, project: str) -> RunRow:
    """Go on with a run in a clone of its own, which is removed afterwards."""
    key = keys.read(worker.env)
    asked = fleet_run.order_of(row, memory.recall(store, row.run_id), key)
    held = _held_to(worker, row, asked, project)
    folder = worker.layout.attempt(row.run_id, row.claim_epoch)
    folder.mkdir(parents=True)
    try:
        repo = _clone(worker, row, asked.ticket, folder / "repo")
        fleet_run.bring_commit(repo, store, row, asked.ticket, key)
        home = structs.replace(held.workspace, root=str(folder / "space"))
        here = structs.replace(asked, order=structs.replace(held, workspace=home))
        tools = _tools(worker, store, repo)
        fleet_run.restore(tools.layout, store, row, here, key)
        run = resume.load_run(tools, row)
        return _take_steps(worker, run, asked.ticket, key, run_order.lowered(asked.order, held))
    finally:
        beneath.remove_tree(folder)


def _take_steps(
    worker: Worker, run: Run, ticket: Ticket, key: FleetKey, lowered: Sequence[str]
) -> RunRow:
    """Take steps as everybody does, but upload each before its row and publish it afterwards.

    The branch follows the row because only the row is fenced: a worker that lost its run
    cannot write it, and so never pushes. Until then the archive holds the commit.
    """
    shelf = Shelf(ticket.artifacts)
    tip = _catch_up(run, shelf, ticket.remote)
    _prepare(worker, run, lowered)
    for role in loop.turns(run):
        if worker.draining.is_set():
            fleet_run.give_back(run, "the worker drains")
            return run.row
        if done := _step(worker, run, role):
            loop.record_step(run, done, _upload(worker, run, shelf, done, key))
            tip = _publish(worker, run, ticket.remote, done.found, tip)
            worker.health.worked(ticket.project)
    return loop.finish_run(run)


def _step(worker: Worker, run: Run, role: Role) -> Finished | None:
    """Take a step; None if git stops the run. What befell this machine alone is raised."""
    began = time.monotonic()
    try:
        done = loop.take_step(run, role)
    except GitError as error:
        if worker.befalls(error, began):
            raise
        loop.stop_run(run, error)
        return None
    row = done.found.row
    failed: TreadleError | None = done.problem
    if row.error_code not in (None, StepError.INTERRUPTED):
        failed = failed or TreadleError(row.summary or "", code=row.error_code)
    if failed and worker.befalls(failed, began):
        raise failed
    return done


def _upload(worker: Worker, run: Run, shelf: Shelf, done: Finished, key: FleetKey) -> Archive:
    """Keep a step's folder, with the objects of its commit, where other machines find it.

    If it cannot be brought there now, it is kept here: no agent works twice for that.
    """
    found = done.found
    before, after = found.before.commit, found.after.commit
    pack = remote.pack(run.tools.repo, before, after) if before != after else None
    step = archive.of_step(run.id, found.row.step_index, found.row.role)
    name = archive.name_of(step, run.row.claim_epoch)
    data = archive.seal(name, done.stage.final, pack, key)
    try:
        return worker.patiently(run.id, lambda: archive.put(shelf, name, data))
    except TreadleError:
        trouble.park(worker.layout.parked, shelf.url, name, data)
        raise


def _publish(worker: Worker, run: Run, url: str, found: Manifest, tip: str | None) -> str | None:
    """Move the run's branch elsewhere from `tip`, or make it there, and return where it is then.

    A refusal stops the run, or is noted if it is over.
    """
    before, after = found.before.commit, found.after.commit
    if before == after or run.row.branch is None:
        return tip
    repo, branch = run.tools.repo, run.row.branch
    try:
        worker.patiently(run.id, lambda: remote.push(repo, url, after, branch, tip))
    except GitError as error:
        if run.row.status == "running" and trouble.kind_of(error):
            raise  # the next worker publishes it
        refused = NewEvent(EventType.PUSH_REFUSED, error.message, {"code": error.code})
        if run.row.status == "running":
            run.end("stopped", error.code, error.message, refused)
        else:
            run.record(refused, push_refused=error.message)
    return after


def _held_to(worker: Worker, row: RunRow, asked: FleetOrder, project: str) -> Order:
    """Hold a signed order to this worker's own configuration."""
    if asked.ticket.project != project or asked.order.script is not None:
        raise FormatError(
            f"run {row.run_id} was not queued for workers of {project}",
            code="order_forged",
            fix=[f"treadle runs show {row.run_id}"],
        )
    held = run_order.held_to(asked.order, worker.config)
    require_sandbox(held)
    return held


def _catch_up(run: Run, shelf: Shelf, url: str) -> str | None:
    """Commit and publish what a dead worker finished and could not, from wherever it left it.

    Return where the run's branch is elsewhere; the first change makes one that is not there.
    """
    while run.row.status == "running" and recover.adopt_uploaded(run, shelf):
        pass
    name, base = run.row.branch or "", run.row.base_commit
    tip = remote.tip(run.tools.repo, url, name)
    own = (None, base, *(step.after_commit for step in run.tools.store.steps(run.id)))
    if tip == run.head or (tip is None and run.head == base):
        return tip
    expected = tip if tip in own else base  # where somebody else put it, the push is refused
    remote.push(run.tools.repo, url, run.head, name, expected)
    return run.head


def _prepare(worker: Worker, run: Run, taken: Sequence[str]) -> None:
    """Make the workspace of a run that goes on, and say what this worker took from its order."""
    if run.row.status != "running":
        return
    if taken:
        message = f"this worker's own configuration is stricter: {', '.join(taken)}"
        run.record(NewEvent(EventType.ORDER_HELD, message, {"keys": list(taken)}))
    if run.order.task_id:
        claim.begin_run(run.tools.store, run.order.task_id, run.id, run.tools.now())
    begin.prepare(run, partial(worker.befalls, since=time.monotonic()))


def _tools(worker: Worker, store: Store, repo: Repo) -> Tools:
    return Tools(
        project=Context(Layout(repo.root / repo.prefix, store.mail.root), repo, worker.env),
        store=store,
        keeper=worker.keeper,
        git_settings=read_settings(repo),
        now=store.now,
        interrupted=lambda: None,
        watch=worker.watch,
        worker=worker.owner,
    )


def _clone(worker: Worker, row: RunRow, ticket: Ticket, path: Path) -> Repo:
    mirror = worker.layout.mirror(ticket.remote)
    with contextlib.closing(WriteLock(mirror.with_suffix(".lock"))) as lock, lock:
        remote.mirror(ticket.remote, mirror, row.branch or "", row.head_commit)
    made = remote.clone(ticket.remote, mirror, path, row.base_commit or "")
    return made._replace(prefix=ticket.prefix)


def _let_go(worker: Worker, store: Store, row: RunRow, message: str, kind: str) -> RunRow | None:
    """Put a run back into the queue that this worker cannot go on with, but others may."""
    worker.note(row.run_id, f"goes back to the queue: {message}")
    row = store.run(row.run_id) or row
    if row.owner != worker.owner or row.status != "running":
        return None  # one that has ended is found by the leader
    told = f"{worker.name} could not go on: {message}"
    anew: dict[str, Any] = {} if kind in trouble.COUNTED else {"tries": None}
    return fleet_run.requeue(store, row, told, **anew)


def _stop(worker: Worker, store: Store, row: RunRow, error: TreadleError) -> None:
    """Stop a run that this worker cannot go on with."""
    row = store.run(row.run_id) or row
    if row.owner == worker.owner:
        kind = EventType.ORDER_REFUSED if error.code in FORGED else EventType.RUN_STOPPED
        _end(store, row, "stopped", kind, error.code, error.message)


def _give_up(worker: Worker, store: Store, row: RunRow, tries: int) -> None:
    """Fail a run that ends every worker it is given to."""
    message = f"the run lost {plural(tries, 'worker')} in a row after step"
    message = f"{message} {row.current_step_index}; it is not tried again"
    epoch = fleet.claim(store, row, worker.owner)
    if epoch is not None:
        row = row._replace(claim_epoch=epoch)
        _end(store, row, "failed", EventType.GAVE_UP, "gave_up", message)


def _end(
    store: Store, row: RunRow, status: RunStatus, kind: EventType, code: str, message: str
) -> None:
    """End a run whose folder is not here; its letters are sent from the project's own machine.

    One that has ended already had a worker that was lost before it could tell everybody.
    """
    known = memory.recall(store, row.run_id)
    if row.status == "running" or memory.is_queued(row, known):
        row = row._replace(status=status)
        fleet_run.record(store, row, kind, message, reason_code=code, reason=message)
        known = memory.recall(store, row.run_id)
    end.tell_desk(store, row, known, store.now())
    has_report = row.task_id and code not in FORGED
    store.release(row.run_id, row.claim_epoch, MAIL if has_report else None)


_LOOK = 0.1
_PARKED = 5.0
_FORGET = timedelta(days=7)


def new_id() -> str:
    """Return a name that no worker had and none will have."""
    return f"{os.uname().nodename[:40].lower()}-{secrets.token_hex(4)}"


def work_until_done(
    site: FleetSite,
    config: Config,
    wishes: Wishes,
    dispatcher: Queue,
    log: Log,
    env: Mapping[str, str],
    on_listed: Callable[[], None],
) -> int:
    """Work until it is time to go; return how many runs were driven.

    As soon as the fleet has it on its list, the worker says so by `on_listed`.
    """
    interrupts, name = Interrupts(), dispatcher.worker
    with Keeper() as keeper, interrupts.installed():
        active = set[Job]()
        beat = Beat(name, dispatcher, active, site, config.fleet, _die, partial(log, slot=None))
        room = Room(FleetLayout(env, site.queue, name).home)
        worker = Worker(name=name, site=site, config=config, wishes=wishes, dispatcher=dispatcher,
                        keeper=keeper, log=log, env=env, health=beat.health, counts=beat.counts,
                        room=room, active=active)  # fmt: skip
        server = metrics.serve(wishes.metrics, worker.metrics, site) if wishes.metrics else None
        _register(beat.store, name, wishes, float(config.fleet.dead_after))
        on_listed()
        _clean(worker.layout, beat.store)
        beat.start()  # first: until its engine runs, a worker could be taken for dead
        standstill = Standstill(keeper, beat.silence, float(config.fleet.dead_after), beat.note)
        standstill.start()
        try:
            dispatcher.work(wishes.slots, worker.deliver, worker.is_fit)
            _stay(wishes, worker, beat, interrupts.reason)
            worker.draining.set()
            fleet.set_status(beat.store, name, "draining")
            dispatcher.drain()
        finally:
            standstill.end()
            beat.end()
            if server:
                server.shutdown()
                server.server_close()
        fleet.set_status(beat.store, name, "left")
        beat.close()
    beneath.remove_tree(worker.layout.work)
    worker.close()
    return worker.finished


def _stay(
    wishes: Wishes, worker: Worker, beat: Beat, interrupted: Callable[[], str | None]
) -> None:
    """Return when the worker should leave."""
    began = busy_at = cleaned_at = time.monotonic()
    looked_at = 0.0
    while not interrupted() and not beat.draining.is_set():
        time.sleep(_LOOK)
        now = time.monotonic()
        if now - looked_at > _PARKED:
            looked_at = now
            trouble.upload_parked(worker.layout.parked)
        if now - cleaned_at > worker.config.fleet.dead_after:
            cleaned_at = now  # one that was killed here counts as living for a while
            with contextlib.suppress(StoreError):
                _clean(worker.layout, beat.store)
        if worker.active:
            busy_at = now
        if wishes.once and worker.finished:
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


def _register(store: Store, worker: str, wishes: Wishes, dead_after: float) -> None:
    now, host = store.now(), os.uname().nodename
    more = utc(now), utc(now), None, wishes.serves, dead_after
    row = WorkerRow(worker, host, os.getpid(), wishes.slots, 0, "alive", *more)
    fleet.register(store, row, utc(now - _FORGET))


def _clean(layout: FleetLayout, store: Store) -> None:
    """Remove what workers of this machine left that are gone for good."""
    found = set(names(layout.workers)) - {layout.work.name}
    # Looked at first: who comes now is listed before it has a folder.
    living = {row.worker_id for row in fleet.living(store)} if found else set[str]()
    for name in found - living:
        beneath.remove_tree(layout.workers / name)
