"""Count what a command puts into folders while it runs."""

import os
import time
from pathlib import Path

from treadle.proc.command import Cause, Limits

_SHARE = 20  # counting may take one part in so many of the time
_BLOCK = 512  # what st_blocks counts, whatever the file system's own blocks are
_MAX_ENTRIES = 200_000
_FOR = "it is meant for results, not for build output"
_MAX_NEW = 1_000_000  # in a folder that may hold a whole repository and its build


class Disk:
    """The space in a command's folders, counted now and then."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._next = 0.0
        self._begun = time.time()
        self._least = {folder: _taken(folder) for folder in limits.growing}

    def breach(self, now: float) -> Cause | None:
        """Return the cause if the folders hold too much by now."""
        if now < self._next:
            return None
        found = self._filled() or self._grown()
        self._next = now + (time.monotonic() - now) * _SHARE
        return found

    def _filled(self) -> Cause | None:
        limit = self._limits.disk_bytes
        if limit is None:
            return None
        sizes = [usage(folder) for folder in self._limits.disk]
        if sum(size for size, _ in sizes) > limit:
            return Cause(
                "disk_limit", f"filled its folder with more than {limit >> 20} MiB; {_FOR}"
            )
        if sum(count for _, count in sizes) > _MAX_ENTRIES:
            return Cause("disk_limit", f"made more than {_MAX_ENTRIES} files in its folder; {_FOR}")
        return None

    def _grown(self) -> Cause | None:
        """Ask the file system, and walk through a folder only if it took in that much at all."""
        limit = self._limits.growth_bytes
        if limit is None:
            return None
        for folder in self._limits.growing:
            taken = _taken(folder)
            least = self._least[folder] = tuple(map(min, taken, self._least[folder]))
            if taken[0] - least[0] <= limit and taken[1] - least[1] <= _MAX_NEW:
                continue
            size, count = usage(folder, self._begun, _MAX_NEW)
            if size > limit:
                told = f"added more than {limit >> 20} MiB to its workspace"
                return Cause("disk_limit", f"{told}; raise sandbox.disk_mb")
            if count > _MAX_NEW:
                return Cause("disk_limit", f"added more than {_MAX_NEW} files to its workspace")
        return None


def _taken(folder: Path) -> tuple[int, ...]:
    """Return the bytes and the files that a folder's file system holds."""
    try:
        seen = os.statvfs(folder)
    except OSError:
        return 0, 0
    return (seen.f_blocks - seen.f_bfree) * seen.f_frsize, seen.f_files - seen.f_ffree


def usage(folder: Path, since: float = 0.0, most: int = _MAX_ENTRIES) -> tuple[int, int]:
    """Return bytes on disk and number of entries below a folder that were changed since then.

    What vanishes meanwhile does not count.
    """
    used, count, pending = 0, 0, [os.fspath(folder)]
    while pending and count <= most:
        try:
            with os.scandir(pending.pop()) as found:
                for item in found:
                    seen = item.stat(follow_symlinks=False)
                    if seen.st_ctime >= since:
                        count += 1
                        used += seen.st_blocks * _BLOCK
                    if item.is_dir(follow_symlinks=False):
                        pending.append(item.path)
        except OSError:  # gone, closed, or too deep to name: the walk at the end will tell
            continue
    return used, count
