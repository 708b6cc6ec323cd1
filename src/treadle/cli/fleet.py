"""`treadle fleet`: look at the workers and what waits for them, and let a worker leave."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import fleet_place, main, output
from treadle.config.schema import FleetConfig
from treadle.errors import NotFoundError
from treadle.fleet import status
from treadle.fleet.site import Site
from treadle.fleet.status import Status
from treadle.store import fleet


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("status", help="Show workers, the queue by repository, and stuck runs")
    drained = actions.add_parser("drain", help="Let a worker finish its steps and leave")
    drained.add_argument("worker", metavar="WORKER", help="Id of the worker, or its beginning")


def run(args: Namespace) -> int:
    """Answer from the fleet's tables, and from the queue if a run is under way."""
    site, config = fleet_place.find(os.environ)
    if args.action == "drain":
        return _drain(site, args)
    found = status.status(site, lambda: _jobs(site, config))
    return output.tell(args.json, _document(found), _print, found)


def _jobs(site: Site, config: FleetConfig) -> set[tuple[str, str]] | None:
    """Ask the queue, if the extra that speaks to it is installed."""
    try:
        found: set[tuple[str, str]] | None = main.load("fleet_jobs").ask(site, config)
    except ModuleNotFoundError:
        return None
    return found


def _drain(site: Site, args: Namespace) -> int:
    with site.fleet() as store:
        living = [row.worker_id for row in fleet.workers(store) if row.status == "alive"]
        named = [name for name in living if name.startswith(args.worker)]
        if len(named) != 1:
            what = "no living worker is" if not named else "more than one worker is"
            raise NotFoundError(f"{what} called {args.worker}", fix=["treadle fleet status"])
        fleet.set_status(store, named[0], "draining")
    said = f"worker {named[0]} finishes its steps, gives its runs back and leaves"
    return output.say(args.json, {"worker_id": named[0], "draining": True}, said)


def _document(found: Status) -> dict[str, object]:
    queued, running = found.queued, found.running
    return {
        "now": found.now,
        "leader": found.leader,
        "workers": [row._asdict() for row in found.workers],
        "repositories": [
            {"repository": it, "queued": queued.get(it, 0), "running": running.get(it, 0)}
            for it in sorted({*queued, *running})
        ],
        "stuck": [item._asdict() for item in found.stuck],
    }


def _print(found: Status) -> None:
    output.print_table(
        ["worker", "host", "status", "busy", "slots", "last beat"],
        [
            (row.worker_id, row.host, row.status, row.busy, row.slots, row.beat_at[:19])
            for row in found.workers
        ],
    )
    output.line()
    output.line(f"leader {found.leader or 'none'}; the database says it is {found.now[:19]}")
    output.line()
    output.print_table(
        ["repository", "queued", "running"],
        [(name, found.queued.get(name, 0), found.running.get(name, 0)) for name in found.queued],
    )
    for item in found.stuck:
        why = (
            "is gone" if item.reason == "worker_gone" else "should drive it, but has no job for it"
        )
        output.warn(f"run {item.run_id} of {item.project} is stuck: {item.worker} {why}")
