"""Find the fleet around a command: the project's, or the one that TREADLE_STORE names."""

from collections.abc import Mapping
from pathlib import Path

from treadle.config.load import Loaded, load
from treadle.errors import ProjectError
from treadle.fleet import site
from treadle.fleet.site import Site
from treadle.layout import Layout, cache_home
from treadle.project.root import find_root, here


def find(env: Mapping[str, str]) -> tuple[Site, Loaded]:
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
        return Layout(find_root(here(), env))
    except ProjectError:
        return None
