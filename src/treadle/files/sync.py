"""Make what was written survive a power loss, many files at a time."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

# Syncs wait on the disk, not on a core: a few threads let the device order them together.
_THREADS = 16


def sync(path: Path | str) -> None:
    """Flush one file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Iterable[Path | str]) -> None:
    """Flush all of these in parallel; one barrier for them together."""
    first, *others = list(paths)
    batch = _Batch(len(others))
    _HELPERS.help(others, batch)
    sync(first)
    batch.wait()


def flush(descriptor: int) -> None:
    """Flush an open file; macOS needs its own call to reach the disk itself."""
    if sys.platform == "darwin":
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


class _Batch:
    """What one caller waits for: so many syncs, and the first thing that went wrong."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._guard, self._over = Lock(), Lock()
        self._error: Exception | None = None
        if count:
            self._over.acquire()

    def sync(self, path: Path | str) -> None:
        """Flush one of them; the last one ends the wait."""
        error = None
        try:
            sync(path)
        except Exception as found:  # noqa: BLE001  # whatever it is, whoever waits is told
            error = found
        with self._guard:
            self._left -= 1
            self._error = self._error or error
            if not self._left:
                self._over.release()

    def wait(self) -> None:
        """Return when all are durable."""
        self._over.acquire()
        if self._error:
            raise self._error


class _Helpers:
    """Threads that sync for whoever asks; a future for each file would cost as much again."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Path | str, _Batch]] = SimpleQueue()
        self._guard = Lock()
        self._count = 0

    def help(self, paths: list[Path | str], batch: _Batch) -> None:
        """Take these on; as many threads as ever were needed at once stay."""
        needed = min(self._waiting.qsize() + len(paths), _THREADS)
        while self._count < needed:
            with self._guard:
                Thread(target=self._work, name="fsync", daemon=True).start()
                self._count += 1
        for path in paths:
            self._waiting.put((path, batch))

    def _work(self) -> None:
        while True:
            path, batch = self._waiting.get()
            batch.sync(path)


_HELPERS = _Helpers()
