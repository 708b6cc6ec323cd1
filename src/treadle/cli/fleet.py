"""`treadle fleet`: the workers, what waits for them, and the key they know orders by."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import fleet_place, main, output
from treadle.config.schema import FleetConfig
from treadle.errors import ConfigError, NotFoundError
from treadle.fleet import status
from treadle.fleet.site import Site
from treadle.fleet.status import Status
from treadle.project import key as keys
from treadle.project.root import refuse_inside_run
from treadle.store import fleet


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("status", help="Show workers, the queue by repository, and stuck runs")
    drained = actions.add_parser("drain", help="Let a worker finish its steps and leave")
    drained.add_argument("worker", metavar="WORKER", help="Id of the worker, or its beginning")
    key = actions.add_parser("key", help="Make the key that signs orders, or say where it is")
    key.add_argument("--rotate", action="store_true", help="Put a new key before the present one")


def run(args: Namespace) -> int:
    """Answer from the fleet's tables, and from the queue if a run is under way."""
    if args.action == "key":
        return _key(args)
    site, loaded = fleet_place.find(os.environ)
    if args.action == "drain":
        return _drain(site, args)
    found = status.status(site, lambda: _jobs(site, loaded.config.fleet))
    key = _describe(site)
    return output.tell(args.json, {**_document(found), "key": key}, _print, found, key)


def _key(args: Namespace) -> int:
    refuse_inside_run(os.environ)
    key = keys.rotate(os.environ) if args.rotate else keys.make(os.environ)
    told = {"path": str(key.path), "name": key.name, "keys": len(key.lines)}
    said = [f"key {key.name} is in {key.path}; copy the file to every machine of the fleet"]
    if args.rotate:
        said.append("what was signed with the key before is believed until the next rotation")
    return output.say(args.json, told, *said)


def _describe(site: Site) -> dict[str, object]:
    """Say whether this machine has the fleet's key, and which."""
    try:
        key = keys.read(os.environ, site.layout.root if site.layout else None)
    except ConfigError as error:
        return {"name": None, "problem": error.message}
    return {"name": key.name, "problem": None}


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


def _print(found: Status, key: dict[str, object]) -> None:
    output.print_table(
        ["worker", "host", "status", "busy", "slots", "last beat"],
        [
            (row.worker_id, row.host, row.status, row.busy, row.slots, row.beat_at[:19])
            for row in found.workers
        ],
    )
    output.line()
    output.line(f"key {key['name'] or 'none that can be used'}")
    output.line(f"leader {found.leader or 'none'}; the database says it is {found.now[:19]}")
    output.line()
    output.print_table(
        ["repository", "queued", "running"],
        [(name, found.queued.get(name, 0), found.running.get(name, 0)) for name in found.queued],
    )
    if key["problem"]:
        output.warn(f"{key['problem']}; try: treadle fleet key")
    for item in found.stuck:
        why = (
            "is gone" if item.reason == "worker_gone" else "should drive it, but has no job for it"
        )
        output.warn(f"run {item.run_id} of {item.project} is stuck: {item.worker} {why}")
