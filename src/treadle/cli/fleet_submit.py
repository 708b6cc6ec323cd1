"""Do what `treadle run --fleet` asks: queue runs instead of driving them."""

import os
from argparse import Namespace
from collections.abc import Callable, Iterator

from msgspec import structs

from treadle.cli import consent, fleet_place, output, shape
from treadle.config import agents
from treadle.config.load import Loaded, load, parse_budgets
from treadle.engine import order, queue
from treadle.engine.find import find
from treadle.engine.order import Order
from treadle.engine.run import Tools
from treadle.errors import BlockedError
from treadle.fleet import queue as fleet_queue
from treadle.fleet import submit
from treadle.fleet.submit import Desk
from treadle.missions import taskfile
from treadle.project.project import open_project, place_mail
from treadle.project.root import here
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import change, criteria, task


def run(args: Namespace) -> int:
    """Queue what was asked and say under which ids it waits."""
    project = open_project(here(), os.environ)
    budgets = parse_budgets(args.budget)
    loaded = load(project.layout, project.env, {"budgets": budgets} if budgets else None)
    place_mail(project, loaded.config)
    consent.require(args, project, loaded)
    site, found = fleet_place.find(project.env)
    with Store.open(project.layout) as store:
        desk = Desk(
            project,
            loaded,
            site,
            store,
            fleet_queue.queue_of(site, found.config.fleet),
            args.priority or 0,
        )
        rows = list(_submit(desk, args, budgets))
        results = [shape.run_result(row, store.kv(row.run_id)) for row in rows]
    return output.tell(args.json, shape.results(results, args.tasks), _print, rows)


def submitter(tools: Tools, loaded: Loaded) -> Callable[[Order], RunRow]:
    """Return what queues the runs of a pass over the inbox."""
    site, found = fleet_place.find(tools.env)
    submit.sealing(site, tools.env)  # without a key no message could be carried out
    desk = Desk(
        tools.project, loaded, site, tools.store, fleet_queue.queue_of(site, found.config.fleet)
    )
    return lambda asked: submit.submit(desk, asked)


def _submit(desk: Desk, args: Namespace, budgets: dict[str, float]) -> Iterator[RunRow]:
    config, swaps = desk.loaded.config, agents.parse_swaps(args.agent)
    if args.resume:
        yield _resume(desk, args.resume, budgets)
        return
    if args.goal is not None:
        asked = criteria.from_flags(args.goal, args.ac, args.verify)
        whole = order.freeze(config, text=args.goal, criteria=asked, swaps=swaps, task_id=None)
        yield submit.submit(desk, whole)
        return
    for found in _tasks(desk, args):
        whole = order.freeze(
            config,
            text=found.text or found.goal,
            criteria=found.criteria,
            swaps=swaps,
            task_id=found.task_id,
        )
        yield submit.submit(desk, whole)


def _tasks(desk: Desk, args: Namespace) -> list[TaskRow]:
    store, now = desk.store, desk.store.now()
    if not args.tasks:
        return list(task.ready(store, now))
    words = [
        taskfile.resolve(desk.project.layout, store, word, args.mission, now) for word in args.tasks
    ]
    return [change.find(store, word) for word in words]


def _resume(desk: Desk, text: str, budgets: dict[str, float]) -> RunRow:
    row = find(desk.store, text)
    kv = desk.store.kv(row.run_id)
    if row.status != "stopped" or queue.FLEET not in kv or queue.is_queued(row, kv):
        raise BlockedError(
            f"run {row.run_id} is not a stopped run of the fleet",
            code="not_resumable",
            fix=[f"treadle runs show {row.run_id}", f"treadle run --resume {row.run_id}"],
        )
    key = submit.sealing(desk.site, desk.project.env)
    return submit.resume(desk, row, _raised(queue.order_of(row, kv, key), budgets))


def _raised(asked: Order, budgets: dict[str, float]) -> Order | None:
    if not budgets:
        return None
    return structs.replace(asked, budgets=structs.replace(asked.budgets, **budgets))


def _print(rows: list[RunRow]) -> None:
    if not rows:
        output.line(
            "nothing is ready to run; add a task with: treadle task add GOAL --verify AC1=CMD"
        )
    for row in rows:
        output.line(f"QUEUED {row.run_id} {row.goal}")
        output.line(f"  next: treadle log -f {row.run_id}")
    if rows:
        output.line("  workers: treadle fleet status")
