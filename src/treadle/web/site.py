"""What every page and action works with."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Generic, NamedTuple, TypeVar, cast

from treadle.errors import ConfigError, NotFoundError, UsageError
from treadle.ids import is_run_id, is_task_id
from treadle.layout import Layout
from treadle.mail import effect, index
from treadle.project.context import Context, reread
from treadle.sandbox.mask import Mask
from treadle.store import address
from treadle.store.store import Reader
from treadle.web.access import Keys

_KEPT_READERS = 8


class Readers:
    """The readers that nobody uses right now, for the database file they were opened on."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._free: list[tuple[int, Reader]] = []

    @contextmanager
    def one(self) -> Iterator[Reader]:
        """Lend a reader; one that met an error, or whose file was replaced, is not lent again."""
        mark = self._mark()
        reader = self._take(mark) or Reader.open(self._layout)
        try:
            address.require_kept(self._layout, reader)
            yield reader
        except BaseException:
            reader.close()
            raise
        if reader.is_there and len(self._free) < _KEPT_READERS and mark:
            self._free.append((mark, reader))
        else:
            reader.close()

    def __del__(self) -> None:
        """Let go of the files with the last page."""
        while self._free:
            self._free.pop()[1].close()

    def _take(self, mark: int) -> Reader | None:
        while self._free:
            found, reader = self._free.pop()
            if found == mark:
                return reader
            reader.close()
        return None

    def _mark(self) -> int:
        """Return which file the database is; 0 for none, which may change at any moment."""
        try:
            return os.stat(self._layout.database).st_ino  # noqa: PTH116  # for every answer
        except FileNotFoundError:
            return 0


Document = dict[str, object]
Seen = TypeVar("Seen")


class Recent(Generic[Seen]):
    """The last look at something that takes long; whoever asks soon gets it again."""

    def __init__(self, seconds: float) -> None:
        self._kept, self._at, self._found = seconds, 0.0, cast(Seen, None)

    def get(self, look: Callable[[], Seen], anew: bool = False) -> Seen:
        """Return what was seen, or look anew."""
        if anew or not self._found or time.monotonic() - self._at > self._kept:
            self._found, self._at = look(), time.monotonic()
        return self._found


class Site(NamedTuple):
    """One served project."""

    project: Context
    keys: Keys
    port: int
    read_only: bool = False
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    readers: Readers | None = None
    mask: Mask = Mask({})
    doctor: Recent[Document] | None = None
    fleet: Recent[Document] | None = None
    settings: Recent[Context] | None = None

    def reread(self) -> "Site":
        """Return what one request works with: settings of this second, or the last good ones."""
        look = partial(reread, self.project)
        with suppress(ConfigError):  # the page on health says what is wrong
            return self._replace(project=self.settings.get(look) if self.settings else look())
        return self

    @contextmanager
    def store(self) -> Iterator[Reader]:
        """Read the project's store for one answer."""
        with self.readers.one() if self.readers else Reader.open(self.project.layout) as store:
            yield store


class WebRequest(NamedTuple):
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
        raise UsageError(f"{name} must not be empty")

    def lines(self, name: str) -> list[str]:
        """Return every value of a field that may be there several times, empty ones too."""
        return [line.strip() for line in self.fields.get(name, "").split("\n")]

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

    @property
    def task(self) -> str:
        """Return the task in the path."""
        if is_task_id(found := self.names["task"]):
            return found
        raise NotFoundError(f"no task is called {found!r}", fix=["treadle task list"])


class Page(NamedTuple):
    """One page: its document is what `--json` gives; `view` adds what only a reader wants.

    A quick document asks the store one thing; to hand it to a thread would take longer.
    """

    path: str
    template: str
    document: Callable[[Site, WebRequest], Document]
    view: Callable[[Site, WebRequest, Document], Document] | None = None
    label: str | None = None  # in the navigation
    is_quick: bool = False


class PageAction(NamedTuple):
    """Something a person can do; it is a command line, shown and carried out as such."""

    path: str
    words: Callable[[WebRequest], list[str]]
    is_long: bool = False  # goes on by itself after it has begun


@contextmanager
def store_with_letters(site: Site) -> Iterator[Reader]:
    """Take in what others wrote, if there is anything and we may, then read."""
    layout = site.project.layout
    with site.store() as reader:
        if (
            site.read_only
            or not layout.mail.root.is_dir()
            or not index.is_stale(reader, layout.mail)
        ):
            yield reader
            return
    # What cannot be read is set aside, and stands in the list of what was.
    fresh, _ = effect.fresh(layout, site.now())
    fresh.close()
    with site.store() as reader:
        yield reader
