"""What every page and action works with."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from treadle.errors import NotFoundError, UsageError
from treadle.ids import is_run_id
from treadle.project.project import Project
from treadle.sandbox.mask import Mask
from treadle.store.store import Reader
from treadle.web.keys import Keys
from treadle.web.readers import Readers

Document = dict[str, object]


class Site(NamedTuple):
    """One served project."""

    project: Project
    keys: Keys
    port: int
    read_only: bool = False
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    readers: Readers | None = None
    mask: Mask = Mask({})

    @contextmanager
    def store(self) -> Iterator[Reader]:
        """Read the project's store for one answer."""
        with self.readers.one() if self.readers else Reader.open(self.project.layout) as store:
            yield store


class Asked(NamedTuple):
    """What a browser wants: the names in the path, and the fields of the query or the form."""

    names: Mapping[str, str]
    fields: Mapping[str, str]
    is_example: bool = False  # a command line is only shown, with names for what is not known

    def text(self, name: str, placeholder: str) -> str:
        """Return a field that must be there."""
        if value := self.fields.get(name, "").strip():
            return value
        if self.is_example:
            return placeholder
        raise UsageError(f"{name} must say something")

    def number(self, name: str, default: int) -> int:
        """Return a field as a number; anything else is the default."""
        text = self.fields.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else default

    @property
    def run(self) -> str:
        """Return the run in the path: a whole id, because it becomes a word of a command line."""
        if is_run_id(found := self.names["run"]):
            return found
        raise NotFoundError(f"no run is called {found!r}", fix=["treadle runs list"])


class Page(NamedTuple):
    """One page: its document is what `--json` gives; `view` adds what only a reader wants.

    A quick document asks the store one thing; to hand it to a thread would take longer.
    """

    path: str
    template: str
    document: Callable[[Site, Asked], Document]
    view: Callable[[Site, Asked, Document], Document] | None = None
    label: str | None = None  # in the navigation
    is_quick: bool = False


class Action(NamedTuple):
    """Something a person can do; it is a command line, shown and carried out as such."""

    path: str
    words: Callable[[Asked], list[str]]
    is_long: bool = False  # goes on by itself after it has begun
