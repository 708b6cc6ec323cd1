"""Tell when a running command takes too much: disk, processes, memory."""

import contextlib
import itertools
import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from treadle.proc import cgroup, sweep
from treadle.proc.command import Cause, Command, Limits

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


_FIRST = 0.1  # seconds in which nobody takes much
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Load:
    """What a command takes of the machine, looked at now and then."""

    def __init__(self, command: Command, shim: int, now: float) -> None:
        self._limits, self._shim = command.limits, shim
        self._next = now + _FIRST
        wrapper = command.jail.wrapper if command.jail else ()
        # Folders in memory that exist only inside: what is in them is nobody's own.
        self._folders = [it for word, it in itertools.pairwise(wrapper) if word in _IN_MEMORY]

    def breach(self, now: float) -> Cause | None:
        """Return the cause if the command takes too much by now."""
        most, memory = self._limits.processes, self._limits.memory_bytes
        if (most is None and memory is None) or now < self._next:
            return None
        held = cgroup.held(self._shim)
        met = next((name for name, is_met in held.items() if is_met), "")
        met = met or self._counted({"memory": memory, "pids": most}, held)
        self._next = now + (time.monotonic() - now) * _SHARE
        return exceeded(self._limits, met)

    def _counted(self, limits: dict[str, int | None], held: Collection[str]) -> str:
        """Count for ourselves what the kernel does not; return which limit is exceeded."""
        most, memory = (limits[it] if it not in held else None for it in ("pids", "memory"))
        if most is None and memory is None:
            return ""
        found = _tree(self._shim)
        if most is not None and sum(found.values()) > most:
            return "pids"
        return "memory" if memory is not None and self._used(found, memory) > memory else ""

    def _used(self, found: dict[int, int], memory: int) -> int:
        """Return the memory of all together; pages that they share count once if it matters."""
        beside = self._inside(found) + _nameless(found)
        used = sum(map(_resident, found)) + beside
        return sum(map(_proportional, found)) + beside if used > memory else used

    def _inside(self, found: dict[int, int]) -> int:
        """Return what lies in those folders; the youngest process sees them."""
        used = 0
        for folder in self._folders if found else ():
            with contextlib.suppress(OSError):
                inside = f"/proc/{max(found)}/root{folder}"
                if os.stat(inside).st_dev == os.stat(folder).st_dev:
                    continue  # it is not up yet: this is the machine's own
                seen = os.statvfs(inside)
                used += (seen.f_blocks - seen.f_bfree) * seen.f_frsize
        return used


_IN_MEMORY = ("--tmpfs", "--dev")


def exceeded(limits: Limits, what: str) -> Cause | None:
    """Say that a command took too many processes or too much memory, if it is one of these."""
    if what == "pids":
        told = f"ran more than {limits.processes} processes and threads at once"
        return Cause("process_limit", f"{told}; raise sandbox.processes")
    if what == "memory":
        told = f"took more than {(limits.memory_bytes or 0) >> 20} MiB of memory"
        return Cause("memory_limit", f"{told}; raise sandbox.memory_mb")
    return None


def _tree(root: int) -> dict[int, int]:
    """Return every process below `root` with its number of threads."""
    return {row[0]: _threads(row[0]) for row in sweep.doomed(sweep.rows(), root, 0, set())}


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 1


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as handle:
            return int(handle.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    """Return a process's part of its memory; whoever lets nobody look pays for shared pages too."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as handle:
            for line in handle:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return _resident(pid)


def _nameless(found: dict[int, int]) -> int:
    """Return what lies in files that have no name and are only memory."""
    sizes = {}
    for path in itertools.chain.from_iterable(map(_handles, found)):
        with contextlib.suppress(OSError):
            if os.readlink(path).startswith("/memfd:"):
                seen = os.stat(path)
                sizes[seen.st_dev, seen.st_ino] = seen.st_blocks * _BLOCK
    return sum(sizes.values())


def _handles(pid: int) -> Iterator[str]:
    try:
        return (f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return iter(())
