"""Be a worker: register, take runs, beat, and leave in good order."""

import os
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from threading import Event
from typing import NamedTuple

from treadle.config.schema import Config
from treadle.engine import queue
from treadle.engine.progress import Progress, Watch
from treadle.engine.signals import Interrupts
from treadle.errors import ExitCode
from treadle.files import remove
from treadle.files.walk import names
from treadle.fleet.beat import Beat
from treadle.fleet.dispatcher import Dispatcher, Job
from treadle.fleet.drive import Driver, Machine
from treadle.fleet.site import Site
from treadle.ids import utc
from treadle.layout import FleetLayout
from treadle.proc.keeper import Keeper
from treadle.store import fleet
from treadle.store.rows.worker import WorkerRow
from treadle.store.writer import Store

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


def work(
    site: Site,
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
        beat = Beat(
            worker,
            dispatcher,
            driver,
            site,
            every=config.fleet.beat,
            dead_after=config.fleet.dead_after,
            on_death=_die,
        )
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
