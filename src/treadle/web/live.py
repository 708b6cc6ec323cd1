"""Tell every open page that something has changed, with one watcher for all of them."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from treadle.errors import StoreError
from treadle.layout import Layout
from treadle.store.address import open_waker
from treadle.store.store import Reader

MAX_STREAMS = 32
TOPICS = ("store", "live", "files")
_EVERY = 0.5  # seconds between looks
_SHORTEST = 0.01
_ALIVE = 20  # looks without news after which a line is sent all the same


class Looking:
    """News by looking: at the store's version, growing logs and the folders that letters reach."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._store = open_waker(layout)
        self._running = _running(layout)
        self._seen: dict[str, object] = {}

    def news(self) -> set[str]:
        """Compare with the last look."""
        found = set()
        if self._store.wait(0):
            found.add("store")
            self._running = _running(self._layout)
        seen: dict[str, object] = {
            "live": tuple(_sizes(self._running)),
            "files": tuple(_times(self._layout)),
        }
        found |= {topic for topic, now in seen.items() if self._seen.get(topic) != now}
        self._seen = seen
        return found

    def fileno(self) -> int | None:
        """Return what can be read when the store calls."""
        return self._store.fileno()

    def close(self) -> None:
        """Close the connection that is asked for its version."""
        self._store.close()


class Feed:
    """The streams of all open pages; it looks only while there are any."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._boot = secrets.token_hex(4)
        self._versions = dict.fromkeys(TOPICS, 0)
        self._streams = 0
        self._news = asyncio.Condition()
        self._watcher: asyncio.Task[None] | None = None

    @contextmanager
    def seat(self) -> Iterator[bool]:
        """Take a place among the streams while the block works; False if there is none."""
        if self._streams >= MAX_STREAMS:
            yield False
            return
        self._streams += 1
        try:
            yield True
        finally:
            self._streams -= 1

    async def stream(self, last_id: str) -> AsyncIterator[str]:
        """Yield what has changed since `last_id`, then whatever changes.

        When the store cannot be read the stream ends: the page says so and comes back soon.
        """
        with suppress(StoreError):
            self._begin()
        seen = dict(self._versions) if last_id == self._id() else dict.fromkeys(TOPICS, -1)
        while self._watcher and not self._watcher.done():
            now, id_ = dict(self._versions), self._id()
            for topic in TOPICS:
                if seen[topic] != now[topic]:
                    yield f"id: {id_}\nevent: {topic}\ndata: {id_}\n\n"
            seen = now
            if not await self._changed(seen):
                yield ": alive\n\n"

    def _begin(self) -> None:
        """Begin to look, unless somebody does; what happened while nobody did counts as news."""
        if self._watcher is None or self._watcher.done():
            self._versions = {name: count + 1 for name, count in self._versions.items()}
            wake = Looking(self._layout)
            wake.news()
            self._watcher = asyncio.create_task(self._watch(wake))

    def _id(self) -> str:
        return ".".join([self._boot, *map(str, self._versions.values())])

    async def _changed(self, seen: dict[str, int]) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(_EVERY * _ALIVE), self._news:
                await self._news.wait_for(lambda: self._versions != seen)
                return True
        return False

    async def _watch(self, wake: Looking) -> None:
        with suppress(StoreError), closing(wake):
            while self._streams:
                if topics := wake.news():
                    async with self._news:
                        self._versions |= {name: self._versions[name] + 1 for name in topics}
                        self._news.notify_all()
                await _pause(wake.fileno())


async def _pause(called_by: int | None) -> None:
    """Wait for the next look: a server's call ends the pause, though not many times a second."""
    if called_by is None:
        await asyncio.sleep(_EVERY)
        return
    called, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(called_by, called.set)
    try:
        await asyncio.sleep(_SHORTEST)
        with suppress(TimeoutError):
            async with asyncio.timeout(_EVERY):
                await called.wait()
    finally:
        loop.remove_reader(called_by)


def _running(layout: Layout) -> list[Path]:
    with Reader.open(layout) as store:
        return [layout.run(row.run_id).live for row in store.running()]


def _sizes(folders: list[Path]) -> Iterator[tuple[str, int]]:
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as entries:
            yield from sorted((entry.path, entry.stat().st_size) for entry in entries)


def _times(layout: Layout) -> Iterator[int]:
    mail = layout.mail
    for folder in (layout.inbox, layout.inbox_dead, layout.specs, mail.new, mail.logs, mail.tasks):
        with suppress(OSError):
            yield folder.stat().st_mtime_ns
