"""Where a fleet keeps its tables: beside one project, or in a database that many share."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from treadle.fleet.patient import Patient
from treadle.layout import Layout
from treadle.store import address
from treadle.store.writer import Store

S = TypeVar("S", bound=Store)

# Where the workers of a shared database are listed.
SCHEMA = "treadle_fleet"
LOCAL = "local"


class Site(NamedTuple):
    """A fleet's database; without `url` it is the one project's own file."""

    url: str | None
    project: str
    layout: Layout | None

    @property
    def queue(self) -> str:
        """Return the address of the dispatcher's own tables."""
        return self.url or f"sqlite:///{self._here.fleet_queue}"

    def fleet(self) -> Store:
        """Open the store that lists the workers."""
        return Store.at(address.at(self.url, SCHEMA)) if self.url else Store.open(self._here)

    def store(self, project: str) -> Store:
        """Open a project's store."""
        return self._open(Store, project)

    def patient_store(self, project: str, patience: float) -> Patient:
        """Open a project's store for a worker, which waits out an outage."""
        store = self._open(Patient, project)
        store.patience = patience
        return store

    def _open(self, kind: type[S], project: str) -> S:
        if self.url is None:
            return kind.open(self._here)
        return kind.at(address.at(self.url, project))

    @property
    def _here(self) -> Layout:
        assert self.layout is not None  # find() gives one or the other
        return self.layout


def find(layout: Layout | None, env: Mapping[str, str]) -> Site | None:
    """Return the fleet that the environment or the project names; None if neither does."""
    place = layout or Layout(Path(os.devnull))
    address.require_trust(place, env)
    url = address.settings(place, env).get("store")
    if url is None or url.startswith("sqlite:"):
        return Site(None, LOCAL, layout) if layout else None
    return Site(url, address.schema(place, env), layout)
