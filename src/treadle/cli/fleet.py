"""`treadle fleet` and `treadle worker`: the workers, their queue and the key that signs orders."""

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from treadle.cli import output
from treadle.config.load import Loaded, load
from treadle.errors import BlockedError, ConfigError, NotFoundError, ProjectError, argument
from treadle.fleet import site
from treadle.fleet.site import FleetSite, FleetStatus
from treadle.ids import local
from treadle.layout import Layout, cache_home
from treadle.project import find_place, here, refuse_inside_run
from treadle.project import key as keys
from treadle.store import fleet
from treadle.store.fleet import WorkerRow
from treadle.text import plural


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
    """Answer from the fleet's tables."""
    place, _ = find_fleet(os.environ)
    found = site.status(place)
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


def remove_project(args: Namespace) -> int:
    """Forget a project of which nothing waits or works; its records stay where they are."""
    refuse_inside_run(os.environ)
    place, _ = find_fleet(os.environ)
    name = args.project
    with place.fleet() as store:
        if name not in {project for project, _ in fleet.projects(store)}:
            raise NotFoundError(f"the fleet has no project {name}", fix=["treadle fleet status"])
        with place.reader(name) as rows:
            left = sum(map(len, fleet.runs(rows)[:2]))
        if left:
            raise BlockedError(
                f"{name} still has {plural(left, 'run')} queued or running",
                code="still_running",
                fix=[f"treadle fleet cancel --where {argument(name)}"],
            )
        fleet.remove_project(store, name)
    said = [f"the fleet no longer serves {name}; the next run queued there brings it back"]
    if place.url:
        said.append(f"its records stay until somebody says: DROP SCHEMA {name} CASCADE")
    return output.say(args.json, {"project": name, "removed": True}, *said)


_QUARANTINED = "quarantined"


def _state(row: WorkerRow) -> str:
    return _QUARANTINED if row.trouble and row.status == "alive" else row.status


def _print(found: FleetStatus, key: dict[str, object]) -> None:
    output.print_table(
        ["worker", "host", "status", "busy", "slots", "last beat", "serves"],
        [
            (it.worker_id, it.host, _state(it), it.busy, it.slots, local(it.beat_at), it.serves)
            for it in found.workers
        ],
    )
    output.line()
    output.line(f"key {key['name'] or 'none that works'}")
    output.line(f"leader {found.leader or 'none'}; the database says it is {local(found.now)}")
    output.line()
    loads = [(it.repository, it.queued, it.running) for it in found.repositories]
    output.print_table(["repository", "queued", "running"], loads)
    for it in found.repositories:
        if it.problem:
            output.warn(f"runs of {it.repository} cannot be counted: {it.problem}")
    if key["problem"]:
        output.warn(f"{key['problem']}; try: treadle fleet key")
    for row in (it for it in found.workers if _state(it) == _QUARANTINED):
        output.warn(f"worker {row.worker_id} leaves runs to others: {row.trouble}")
    for item in found.stuck:
        is_gone = item.reason == "worker_gone"
        why = "is gone" if is_gone else "should drive it, but has no job for it"
        output.warn(f"run {item.run_id} of {item.project} is stuck: {item.worker} {why}")
