"""What needs the extra `fleet`: drive queued runs as a worker, and queue runs for workers."""

import contextlib
import json
import os
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from treadle.cli import output
from treadle.cli.doctor import print_checks
from treadle.cli.fleet import find_fleet
from treadle.cli.process import process_inbox as process_here
from treadle.cli.run import (
    asked_settings,
    check,
    leave_note,
    open_configured,
    print_waiting,
    require_trust,
    run_document,
    runs_document,
)
from treadle.config import agents
from treadle.config.load import Loaded, parse_limits
from treadle.engine.elsewhere import archive
from treadle.engine.run import memory, order
from treadle.engine.run.memory import Progress
from treadle.engine.run.order import Order
from treadle.engine.run.run import Tools
from treadle.engine.show.view import find_run
from treadle.errors import ExitCode, UsageError
from treadle.fleet import bulk, worker
from treadle.fleet import check as check_place
from treadle.fleet import submit as fleet_submit
from treadle.fleet.bulk import Change, RunChange
from treadle.fleet.queue import Queue
from treadle.fleet.submit import Desk
from treadle.fleet.worker import Wishes
from treadle.ids import utc
from treadle.missions import adopt
from treadle.project import refuse_inside_run, trust
from treadle.project.context import Context, open_context
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import task, waiting
from treadle.tasks.waiting import WaitingTask
from treadle.text import line, plural


def work(args: Namespace) -> int:
    """Work until it is time to leave, say how many runs were driven."""
    refuse_inside_run(os.environ)
    if args.slots is not None and not 1 <= args.slots <= 100:
        raise UsageError("--slots must be from 1 to 100")
    site, loaded = find_fleet(os.environ)
    if site.layout:
        trust.require(open_context(site.layout.root, os.environ))
    fleet_submit.sealing(site, os.environ)
    archive.load_driver()  # a worker without it could only give runs back
    config = loaded.config
    name = worker.new_id()
    os.environ["PGAPPNAME"] = name  # by it the others end what this worker has open if it is lost
    dispatcher = Queue(site, config.fleet, name)
    slots = args.slots or config.fleet.slots
    served = frozenset(args.projects), frozenset(args.labels)
    wishes = Wishes(slots, args.once, args.idle_exit, args.until, args.metrics, *served)
    is_silent = args.json or args.log == "json"

    def say_hello() -> None:
        where = "" if site.url else ", of this project alone: its store is a file here"
        if not is_silent:
            output.line(f"worker {name} takes {plural(slots, 'run')} at a time{where}", flush=True)

    log = _WorkerLog(name, args)
    driven = worker.work_until_done(site, config, wishes, dispatcher, log, os.environ, say_hello)
    if args.log == "json" and not args.json:
        return ExitCode.DONE
    told = {"worker_id": name, "runs": driven}
    return output.say(args.json, told, f"worker {name} leaves after {plural(driven, 'run')}")


class _WorkerLog:
    """Writes a line for each step, end and note to stderr: when, which run, in which slot."""

    def __init__(self, worker: str, args: Namespace) -> None:
        self._worker = worker
        self._as_json = args.log == "json"
        self._is_quiet = args.json and args.log is None and not sys.stderr.isatty()
        self._turn = threading.Lock()

    def __call__(self, moment: Progress, *, slot: int | None) -> None:
        if self._is_quiet or moment.kind in ("step", "tick"):
            return
        told: dict[str, object] = {
            "time": utc(datetime.now(UTC)),
            "worker": self._worker,
            "run_id": moment.run_id or None,
            "slot": slot,
            "kind": moment.kind,
            "role": moment.role,
            "iteration": moment.iteration or None,
            "seconds": round(moment.elapsed, 3),
            "message": line(moment.message),
        }
        text = json.dumps(told, ensure_ascii=False) if self._as_json else _line(told)
        # Whoever reads the log may have gone; the work goes on.
        with self._turn, contextlib.suppress(OSError):
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def _line(told: dict[str, object]) -> str:
    names = ("run_id", "slot", "role", "iteration")
    where = "".join(f" {name}={told[name]}" for name in names if told[name] is not None)
    return f"{told['time']} {told['kind']}{where}: {told['message']}"


def process_inbox(args: Namespace) -> int:
    """Go through the inbox once and queue its runs."""
    return process_here(args, _submitter)


def check_fleet(args: Namespace) -> int:
    """Look whether this machine could work for the fleet; exit with 1 if something is missing."""
    site, loaded = find_fleet(os.environ)
    found = list(check_place.examine(site, loaded.config, os.environ))
    is_fine = all(it.ok for it in found)
    told = {"ok": is_fine, "checks": [it._asdict() for it in found]}
    output.tell(args.json, told, print_checks, found)
    return ExitCode.DONE if is_fine else ExitCode.FAILED


def _change(what: Change, args: Namespace) -> int:
    """Change all runs that are meant, and say which."""
    refuse_inside_run(os.environ)
    site, loaded = find_fleet(os.environ)
    done = bulk.change_runs(site, loaded.config.fleet, os.environ, what, args.where)
    return _tell_changed(args, what, done)


resume_runs = partial(_change, "resume")
requeue_runs = partial(_change, "requeue")
cancel_runs = partial(_change, "cancel")


def rebuild_runs(args: Namespace) -> int:
    """Bring back what an older database has forgotten and the archives still have."""
    project, _ = open_configured()
    require_trust(args, project)
    with Store.open(project.layout) as store:
        return _tell_changed(args, "rebuild", bulk.rebuild_runs(_desk(project, store)))


def _tell_changed(args: Namespace, what: str, done: list[RunChange]) -> int:
    """Say which runs were changed; exit with 1 if some could not be."""
    output.tell(args.json, {"runs": [it._asdict() for it in done]}, _print_changed, what, done)
    return ExitCode.FAILED if any(it.problem for it in done) else ExitCode.DONE


def _print_changed(what: str, done: list[RunChange]) -> None:
    for it in done:
        output.line(f"{what} {it.project} {it.run_id}{f': {it.problem}' if it.problem else ''}")
    output.line(plural(sum(it.problem is None for it in done), "run"))


def _submitter(tools: Tools, loaded: Loaded) -> Callable[[Order], RunRow]:
    desk = _desk(tools.project, tools.store)
    fleet_submit.sealing(desk.site, tools.env)  # without a key no message could be carried out
    return lambda asked: fleet_submit.submit(desk, asked)[0]


def _desk(project: Context, store: Store, priority: int = 0) -> Desk:
    site, found = find_fleet(project.env)
    queue = Queue(site, found.config.fleet)
    return Desk(project, project.settings.config, site, store, queue, priority)


def submit_runs(args: Namespace) -> int:
    """Queue what was asked and say under which ids it waits."""
    check(args, fleet=True)
    limits = parse_limits(args.budget)
    budgets = limits.get("budgets", {})
    project, _ = open_configured(asked_settings(args, limits))
    require_trust(args, project)
    with Store.open(project.layout) as store:
        rows = _submit(_desk(project, store, args.priority or 0), args, budgets)
        results = [run_document(row, memory.recall(store, row.run_id)) for row in rows]
        waits = [] if rows else waiting.waiting_tasks(store, store.now(), stacks=False)
    told = {} if rows else {"waiting": [item._asdict() for item in waits]}
    output.tell(args.json, runs_document(results, args.tasks) | told, _print, rows, waits)
    return ExitCode.BLOCKED if any(item.is_stuck for item in waits) else ExitCode.DONE


def _submit(desk: Desk, args: Namespace, budgets: dict[str, float]) -> list[RunRow]:
    if args.resume and args.note:
        leave_note(desk.project.layout, desk.store, args.resume, args.note)
    if args.resume:
        return [fleet_submit.resume_one(desk, find_run(desk.store, args.resume), budgets)]
    freeze = partial(order.freeze, desk.config, swaps=agents.parse_swaps(args.agent))
    if args.goal is not None:
        asked = task.criteria_from_flags(args.goal, args.ac, args.verify)
        goal = order.with_note(args.goal, args.note)
        return fleet_submit.submit(desk, freeze(text=goal, criteria=asked, task_id=None))
    orders = (
        freeze(
            text=order.with_note(row.text or row.goal, args.note),
            criteria=row.criteria,
            task_id=row.task_id,
        )
        for row in _tasks(desk, args)
    )
    return fleet_submit.submit(desk, *orders)


def _tasks(desk: Desk, args: Namespace) -> list[TaskRow]:
    store, now = desk.store, desk.store.now()
    if not args.tasks:
        rows = task.ready(store, now)
        return [row for row in rows if not waiting.unmet(store, row, stacks=False)]
    words = [
        adopt.resolve_task(desk.project.layout, store, word, args.mission, now)
        for word in args.tasks
    ]
    return [task.find_task(store, word) for word in words]


def _print(rows: list[RunRow], waits: list[WaitingTask]) -> None:
    if not rows:
        print_waiting(waits)
    for row in rows:
        output.line(f"QUEUED {row.run_id} {row.goal}")
        output.line(f"  next: treadle log -f {row.run_id}")
    if rows:
        output.line("  workers: treadle fleet status")
