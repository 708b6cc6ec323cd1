"""Count what a command puts into folders while it runs."""

import os
import time
from pathlib import Path

from treadle.proc.command import Cause, Limits

_SHARE = 20  # counting may take one part in so many of the time
_BLOCK = 512  # what st_blocks counts, whatever the file system's own blocks are
_MAX_ENTRIES = 200_000


class Disk:
    """The space in a command's folders, counted now and then."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.disk_bytes
        self._folders = limits.disk
        self._next = 0.0

    def breach(self, now: float) -> Cause | None:
        """Return the cause if the folders hold too much by now."""
        if self._limit is None or now < self._next:
            return None
        used, entries = 0, 0
        for folder in self._folders:
            size, count = usage(folder)
            used, entries = used + size, entries + count
        self._next = now + (time.monotonic() - now) * _SHARE
        if used > self._limit:
            return Cause("disk_limit", f"filled its folder with more than {self._limit >> 20} MiB")
        if entries > _MAX_ENTRIES:
            return Cause("disk_limit", f"made more than {_MAX_ENTRIES} files in its folder")
        return None


def usage(folder: Path) -> tuple[int, int]:
    """Return bytes on disk and number of entries below a folder; what vanishes does not count."""
    used, count, pending = 0, 0, [os.fspath(folder)]
    while pending and count <= _MAX_ENTRIES:
        try:
            with os.scandir(pending.pop()) as found:
                for item in found:
                    count += 1
                    used += item.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if item.is_dir(follow_symlinks=False):
                        pending.append(item.path)
        except OSError:  # gone, closed, or too deep to name: the walk at the end will tell
            continue
    return used, count
