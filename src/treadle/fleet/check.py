"""Look, from a worker's place, whether everything that a worker needs can be reached."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from treadle.config.schema import Config
from treadle.engine.elsewhere.archive import Shelf
from treadle.errors import TreadleError
from treadle.fleet.site import FleetSite
from treadle.git import call, remote
from treadle.project import key as keys
from treadle.project.doctor import Check, ask
from treadle.sandbox import jails
from treadle.store import fleet
from treadle.store.fleet import FleetProject
from treadle.text import plural

_OFF = 60.0


def examine(site: FleetSite, config: Config, env: Mapping[str, str]) -> Iterator[Check]:
    """Yield what was looked at: database, clock, key, archives, sandbox and each project."""
    found: list[FleetProject] = []
    yield ask("database", _database, site, found)
    yield ask("clock", _clock, site)
    root = site.layout.root if site.layout else None
    yield ask("key", lambda: f"key {keys.read(env, root).name}")
    if config.artifacts:
        yield ask("artifacts", _artifacts, config.artifacts)
    tier = jails.probe(config.sandbox.tier)
    is_closed = tier.tier != "0" or config.sandbox.mode == "off"
    yield Check("sandbox", is_closed, f"tier {tier.tier}: {tier.reason}", tuple(tier.fix))
    for project, url in found:
        looked = ask(f"store of {project}", _project, site, project)
        if looked.ok or not site.layout or project == site.project:
            yield looked
            yield ask(f"repository of {project}", _repository, url)
        else:
            yield Check(looked.name, True, f"left to others: {looked.detail}")


def _database(site: FleetSite, found: list[FleetProject]) -> str:
    """Open it as a worker does, which needs the right to change its tables.

    In a project stands who queues runs there, and may have no right to work.
    """
    with site.fleet() as store:
        found += fleet.projects(store)
        if not site.layout:
            fleet.set_status(store, "", "left")
        living = plural(len(fleet.living(store)), "living worker")
    return f"reached; it lists {plural(len(found), 'project')} and {living}"


def _clock(site: FleetSite) -> str:
    with site.fleet() as store:
        off = (datetime.now(UTC) - store.now()).total_seconds()
    if abs(off) > _OFF:
        text = f"this machine's clock is {off:+.0f} s off the database's; services may refuse it"
        raise TreadleError(text, fix=["timedatectl status"])
    return f"{off:+.1f} s off the database's, whose time counts"


def _artifacts(url: str) -> str:
    """Write, read and remove something: a bucket that loses what it took is found here."""
    shelf, name = Shelf(url), f"check/{os.urandom(8).hex()}"
    shelf.put(name, name.encode())
    kept = shelf.get(name)
    shelf.remove(name)
    if kept != name.encode():
        raise TreadleError("artifacts are not read back as they were written")
    return "written, read back and removed"


def _project(site: FleetSite, name: str) -> str:
    with site.reader(name) as reader:
        found = fleet.runs(reader)
        if reader.is_there:
            with site.store(name) as store:
                fleet.require_rights(store)
    return f"{len(found.queued)} queued, {len(found.held)} running"


def _repository(url: str) -> str:
    remote.reach(url)
    with tempfile.TemporaryDirectory() as folder:
        call.out(["init", "-q", "--bare", "--", folder], {})
        trial = ["push", "-q", "--dry-run", "--no-verify", "--", url, ":refs/heads/treadle/check"]
        call.out(trial, {"GIT_DIR": folder})
    return f"{remote.bare(url)} can be read and written"
