"""What needs the extra `fleet`: drive queued runs as a worker, and queue runs for workers."""

import os
from argparse import Namespace
from collections.abc import Callable
from functools import partial

from treadle.cli import output
from treadle.cli.fleet import find_fleet
from treadle.cli.process import process_inbox as process_here
from treadle.cli.run import (
    NOTHING_READY,
    check,
    open_configured,
    require_trust,
    run_document,
    runs_document,
    watcher,
)
from treadle.config import agents
from treadle.config.load import Loaded, parse_budgets
from treadle.config.schema import FleetConfig
from treadle.engine.run import memory, order
from treadle.engine.run.order import Order
from treadle.engine.run.run import Tools
from treadle.engine.show.view import find_run
from treadle.errors import StoreError, UsageError
from treadle.fleet import queue as fleet_queue
from treadle.fleet import worker
from treadle.fleet.queue import Desk
from treadle.fleet.site import FleetSite
from treadle.fleet.worker import Wishes
from treadle.missions import mission
from treadle.project import refuse_inside_run, trust
from treadle.project.context import Context, open_context
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import task
from treadle.text import plural


def work(args: Namespace) -> int:
    """Work until it is time to leave, say how many runs were driven."""
    refuse_inside_run(os.environ)
    if args.slots is not None and not 1 <= args.slots <= 100:
        raise UsageError("--slots must be from 1 to 100")
    site, loaded = find_fleet(os.environ)
    if site.layout:
        trust.require(open_context(site.layout.root, os.environ))
    fleet_queue.sealing(site, os.environ)
    config = loaded.config
    name = worker.new_id()
    os.environ["PGAPPNAME"] = name  # by it the others end what this worker has open if it is lost
    dispatcher = fleet_queue.queue_of(site, config.fleet, name)
    wishes = Wishes(args.slots or config.fleet.slots, args.once, args.idle_exit, args.until)
    if not args.json:
        output.line(f"worker {name} takes {plural(wishes.slots, 'run')} at a time", flush=True)
    driven = worker.work_until_done(
        site, config, wishes, name, dispatcher, watcher(args.json), os.environ
    )
    told = {"worker_id": name, "runs": driven}
    return output.say(args.json, told, f"worker {name} leaves after {plural(driven, 'run')}")


def known_jobs(site: FleetSite, config: FleetConfig) -> set[tuple[str, str]] | None:
    """Return project and id of each run that a job stands for; None if the queue says nothing."""
    try:
        health = fleet_queue.queue_of(site, config).health()
    except StoreError:
        return None
    return {(job.project, job.run_id) for job in (*health.waiting, *health.held)}


def process_inbox(args: Namespace) -> int:
    """Go through the inbox once and queue its runs."""
    return process_here(args, _submitter)


def _submitter(tools: Tools, loaded: Loaded) -> Callable[[Order], RunRow]:
    desk = _desk(tools.project, tools.store)
    fleet_queue.sealing(desk.site, tools.env)  # without a key no message could be carried out
    return lambda asked: fleet_queue.submit(desk, asked)


def _desk(project: Context, store: Store, priority: int = 0) -> Desk:
    site, found = find_fleet(project.env)
    queue = fleet_queue.queue_of(site, found.config.fleet)
    return Desk(project, project.settings.config, site, store, queue, priority)


def submit_runs(args: Namespace) -> int:
    """Queue what was asked and say under which ids it waits."""
    check(args, fleet=True)
    budgets = parse_budgets(args.budget)
    project, _ = open_configured({"budgets": budgets} if budgets else None)
    require_trust(args, project)
    with Store.open(project.layout) as store:
        rows = _submit(_desk(project, store, args.priority or 0), args, budgets)
        results = [run_document(row, memory.recall(store, row.run_id)) for row in rows]
    return output.tell(args.json, runs_document(results, args.tasks), _print, rows)


def _submit(desk: Desk, args: Namespace, budgets: dict[str, float]) -> list[RunRow]:
    if args.resume:
        return [fleet_queue.resume(desk, find_run(desk.store, args.resume), budgets)]
    freeze = partial(order.freeze, desk.config, swaps=agents.parse_swaps(args.agent))
    if args.goal is not None:
        asked = task.criteria_from_flags(args.goal, args.ac, args.verify)
        return [fleet_queue.submit(desk, freeze(text=args.goal, criteria=asked, task_id=None))]
    orders = (
        freeze(text=row.text or row.goal, criteria=row.criteria, task_id=row.task_id)
        for row in _tasks(desk, args)
    )
    return [fleet_queue.submit(desk, asked) for asked in orders]


def _tasks(desk: Desk, args: Namespace) -> list[TaskRow]:
    store, now = desk.store, desk.store.now()
    if not args.tasks:
        return list(task.ready(store, now))
    words = [
        mission.resolve_task(desk.project.layout, store, word, args.mission, now)
        for word in args.tasks
    ]
    return [task.find_task(store, word) for word in words]


def _print(rows: list[RunRow]) -> None:
    if not rows:
        output.line(NOTHING_READY)
    for row in rows:
        output.line(f"QUEUED {row.run_id} {row.goal}")
        output.line(f"  next: treadle log -f {row.run_id}")
    if rows:
        output.line("  workers: treadle fleet status")
