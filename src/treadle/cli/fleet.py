"""`treadle fleet` and `treadle worker`: the workers, their queue and the key that signs orders."""

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from treadle.cli import main, output
from treadle.config.load import Loaded, load
from treadle.config.schema import FleetConfig
from treadle.errors import ConfigError, NotFoundError, ProjectError
from treadle.fleet import site
from treadle.fleet.site import FleetSite, FleetStatus
from treadle.layout import Layout, cache_home
from treadle.project import find_place, here, refuse_inside_run
from treadle.project import key as keys
from treadle.store import fleet


def find_fleet(env: Mapping[str, str]) -> tuple[FleetSite, Loaded]:
    """Return the fleet and what is configured; a worker needs no project where a store is named."""
    layout = _project(env)
    found = site.find_site(layout, env)
    if found is None:
        raise ProjectError(
            "there is no project here, and TREADLE_STORE names no database that workers share",
            fix=["export TREADLE_STORE=postgresql://user@host/database", "treadle init"],
        )
    nowhere = Layout(Path(cache_home(env)) / "fleet" / "nowhere")
    return found, load(layout or nowhere, env)


def _project(env: Mapping[str, str]) -> Layout | None:
    try:
        return find_place(here(), env).layout
    except ProjectError:
        return None


def show_fleet(args: Namespace) -> int:
    """Answer from the fleet's tables, and from the queue if a run is under way."""
    place, loaded = find_fleet(os.environ)
    found = site.status(place, lambda: _jobs(place, loaded.config.fleet))
    key = _describe(place)
    tables = {name: getattr(found, name) for name in ("workers", "repositories", "stuck")}
    told = found._asdict() | {name: [row._asdict() for row in it] for name, it in tables.items()}
    return output.tell(args.json, told | {"key": key}, _print, found, key)


def make_key(args: Namespace) -> int:
    refuse_inside_run(os.environ)
    key = keys.rotate(os.environ) if args.rotate else keys.make(os.environ)
    told = {"path": str(key.path), "name": key.name, "keys": len(key.lines)}
    said = [f"key {key.name} is in {key.path}; copy the file to every machine of the fleet"]
    if args.rotate:
        said.append("what the previous key signed stays valid until the next rotation")
    return output.say(args.json, told, *said)


def _describe(place: FleetSite) -> dict[str, object]:
    """Say whether this machine has the fleet's key, and which."""
    try:
        key = keys.read(os.environ, place.layout.root if place.layout else None)
    except ConfigError as error:
        return {"name": None, "problem": error.message}
    return {"name": key.name, "problem": None}


def _jobs(place: FleetSite, config: FleetConfig) -> set[tuple[str, str]] | None:
    """Ask the queue, if the extra that speaks to it is installed."""
    try:
        found: set[tuple[str, str]] | None = main.call("fleet_work.known_jobs", place, config)
    except ModuleNotFoundError:
        return None
    return found


def drain_worker(args: Namespace) -> int:
    place, _ = find_fleet(os.environ)
    with place.fleet() as store:
        living = [row.worker_id for row in fleet.workers(store) if row.status == "alive"]
        named = [name for name in living if name.startswith(args.worker)]
        if len(named) != 1:
            what = "no living worker is" if not named else "more than one worker is"
            raise NotFoundError(f"{what} called {args.worker}", fix=["treadle fleet status"])
        fleet.set_status(store, named[0], "draining")
    said = f"worker {named[0]} finishes its steps, gives its runs back and leaves"
    return output.say(args.json, {"worker_id": named[0], "draining": True}, said)


def _print(found: FleetStatus, key: dict[str, object]) -> None:
    output.print_table(
        ["worker", "host", "status", "busy", "slots", "last beat"],
        [
            (row.worker_id, row.host, row.status, row.busy, row.slots, row.beat_at[:19])
            for row in found.workers
        ],
    )
    output.line()
    output.line(f"key {key['name'] or 'none that works'}")
    output.line(f"leader {found.leader or 'none'}; the database says it is {found.now[:19]}")
    output.line()
    output.print_table(["repository", "queued", "running"], found.repositories)
    if key["problem"]:
        output.warn(f"{key['problem']}; try: treadle fleet key")
    for item in found.stuck:
        is_gone = item.reason == "worker_gone"
        why = "is gone" if is_gone else "should drive it, but has no job for it"
        output.warn(f"run {item.run_id} of {item.project} is stuck: {item.worker} {why}")
