"""Tell every open page that something has changed, by looking once for all of them."""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from treadle.errors import StoreError
from treadle.layout import Layout
from treadle.store import address
from treadle.store.store import Reader

MAX_STREAMS = 32
TOPICS = ("store", "live", "files")
_EVERY = 0.5  # seconds between looks
_ALIVE = 20  # looks without news after which a line is sent all the same


class Looking:
    """News by looking: at the store's version, growing logs and the folders that letters reach."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._store = address.find(layout).open_waker()
        self._running = _running(layout)
        self._seen: dict[str, object] = {}

    def news(self) -> set[str]:
        """Compare with the last look."""
        found = set()
        if self._store.wait(0):
            found.add("store")
            self._running = _running(self._layout)
        seen: dict[str, object] = {
            "live": tuple(_sizes([*self._running, self._layout.waiters])),
            "files": tuple(_times(self._layout)),
        }
        found |= {topic for topic, now in seen.items() if self._seen.get(topic) != now}
        self._seen = seen
        return found

    def close(self) -> None:
        """Close the connection that is asked for its version."""
        self._store.close()


class Feed:
    """What the streams of all open pages share: one who looks, as long as there are any."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._boot = secrets.token_hex(4)
        self._versions = dict.fromkeys(TOPICS, 0)
        self._streams = 0
        self._looking: Looking | None = None
        self._looked_at = 0.0

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
            if self._looking and not self._streams:
                self._looking.close()
                self._looking = None

    async def stream(self, last_id: str) -> AsyncIterator[str]:
        """Yield what has changed since `last_id`, then whatever changes.

        When the store cannot be read the stream ends: the page says so and comes back soon.
        """
        seen = dict(self._versions) if last_id == self._id() else dict.fromkeys(TOPICS, -1)
        quiet = 0
        with suppress(StoreError):
            while True:
                self._look()
                now, id_ = dict(self._versions), self._id()
                for topic in TOPICS:
                    if seen[topic] != now[topic]:
                        yield f"id: {id_}\nevent: {topic}\ndata: {id_}\n\n"
                quiet = quiet + 1 if seen == now else 0
                if quiet == _ALIVE:
                    yield ": alive\n\n"
                    quiet = 0
                seen = now
                await asyncio.sleep(_EVERY)

    def _look(self) -> None:
        """Look, unless another stream just did; what happened while nobody did counts as news."""
        if self._looking and time.monotonic() - self._looked_at < _EVERY / 2:
            return
        topics = self._looking.news() if self._looking else set(TOPICS)
        if self._looking is None:
            self._looking = Looking(self._layout)
            self._looking.news()
        self._versions |= {name: self._versions[name] + 1 for name in topics}
        self._looked_at = time.monotonic()

    def _id(self) -> str:
        return ".".join([self._boot, *map(str, self._versions.values())])


def _running(layout: Layout) -> list[Path]:
    with Reader.open(layout) as store:
        address.require_kept(layout, store)
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
