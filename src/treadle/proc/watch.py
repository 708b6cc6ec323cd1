"""Follow a running command: its limits, its output, the wish to stop it, its end."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from treadle.proc import sweep
from treadle.proc.channel import Channel, Files
from treadle.proc.command import UNLIMITED, Cause, Command, Ended, Limits, explain_refusal

_SHARE = 20  # counting may take one part in so many of the time
_BLOCK = 512  # what st_blocks counts, whatever the file system's own blocks are
_MAX_ENTRIES = 200_000
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
        sizes = [usage(folder) for folder in self._limits.disk]
        if sum(size for size, _ in sizes) > limit:
            told = f"filled its folder with more than {limit >> 20} MiB"
        elif sum(count for _, count in sizes) > _MAX_ENTRIES:
            told = f"made more than {_MAX_ENTRIES} files in its folder"
        else:
            return None
        return Cause("disk_limit", f"{told}; it is meant for results, not for build output")

    def _grown(self) -> Cause | None:
        """Ask the file system, and walk through a folder only if it took in that much at all."""
        limit = self._limits.growth_bytes
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
        if now < self._next:
            return None
        held = sweep.met_limits(self._shim)
        met = next((name for name, is_met in held.items() if is_met), "") or self._counted(held)
        self._next = now + (time.monotonic() - now) * _SHARE
        return exceeded(self._limits, met)

    def _counted(self, held: Collection[str]) -> str:
        """Count for ourselves what the kernel does not; return which limit is exceeded."""
        most = UNLIMITED if "pids" in held else self._limits.processes
        memory = UNLIMITED if "memory" in held else self._limits.memory_bytes
        if most == memory == UNLIMITED:
            return ""
        found = _tree(self._shim)
        if sum(found.values()) > most:
            return "pids"
        return "memory" if memory < UNLIMITED and self._used(found, memory) > memory else ""

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
        told = f"took more than {limits.memory_bytes >> 20} MiB of memory"
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


# Every moment makes it worse.
_AT_ONCE = ("output_limit", "disk_limit", "memory_limit", "process_limit")

ShouldStop = Callable[[], str | None]
OnTick = Callable[[float], None]

_FIRST_TICK, _LAST_TICK, _SHORTEST = 0.02, 0.25, 0.002
_SIGNALLED, _SIGNALS = 128, 64
_OBEY = 12.0  # seconds a shim has to obey; it may itself wait ten for what cannot be killed
_LOST = Cause("lost", "the process that watched it was killed from outside")
_CLEANED_UP = ["lost"]  # the keeper's word that nothing of a killed shim's is left
_ABANDONED = Cause("stopped", "treadle itself was interrupted")


def breach(limits: Limits, elapsed: float, quiet: float, written: int) -> Cause | None:
    """Return which limit is exceeded, if any."""
    if written > limits.output_bytes:
        return Cause("output_limit", f"wrote more than {limits.output_bytes} bytes")
    if elapsed >= limits.wall:
        return Cause("timeout", f"ran longer than {limits.wall:g} s")
    if quiet >= limits.idle:
        return Cause("idle_timeout", f"wrote nothing for {limits.idle:g} s")
    return None


class Watch:
    """One command being followed."""

    def __init__(self, channel: Channel, files: Files, command: Command, path: str) -> None:
        self._channel, self._files, self._command, self._path = channel, files, command, path
        self._limits = command.limits
        self._begun = self._grown_at = self._seen_at = time.monotonic()
        self._tick = _FIRST_TICK
        self._written = 0
        self._rate = 0.0
        self._cause: Cause | None = None
        self._orders: list[tuple[float, Callable[[], None]]] = []
        self._disk = Disk(self._limits)
        self._load = Load(command, channel.shim, self._begun)

    def follow(self, should_stop: ShouldStop | None, on_tick: OnTick | None) -> Ended:
        """Wait until everything is dead and say how it ended."""
        words = None
        try:
            words = self._wait(should_stop, on_tick)
        finally:
            # A callback or a signal may raise: what runs must die all the same.
            if words is None:
                self._stop(_ABANDONED, 0)
                self._wait(None, None)
        return self._ended(words)

    def _wait(self, should_stop: ShouldStop | None, on_tick: OnTick | None) -> list[str]:
        while (words := self._channel.receive(self._pause())) is None:
            self._give_due_order()
            self._look(should_stop)
            if on_tick:
                on_tick(time.monotonic() - self._begun)
        return words

    def _pause(self) -> float:
        """Return how long nothing can happen that needs a look."""
        now, limits = time.monotonic(), self._limits
        moments = [now + self._tick, *(moment for moment, _ in self._orders)]
        if self._cause is None:
            moments += [self._begun + limits.wall, self._grown_at + limits.idle]
            if self._rate > 0:
                moments.append(now + (limits.output_bytes - self._written) / self._rate / 2)
        return max(min(moments) - now, _SHORTEST)

    def _look(self, should_stop: ShouldStop | None) -> None:
        now, written = time.monotonic(), sum(self._files.sizes())
        self._rate = (written - self._written) / max(now - self._seen_at, _SHORTEST)
        if written != self._written:
            self._grown_at = now
        self._seen_at, self._written = now, written
        self._tick = min(self._tick * 1.5, _LAST_TICK)
        if self._cause is None:
            quiet = now - self._grown_at
            cause = breach(self._limits, now - self._begun, quiet, written)
            cause = cause or self._disk.breach(now) or self._load.breach(now) or _wish(should_stop)
            if cause:
                grace = 0 if cause.reason in _AT_ONCE else self._limits.grace
                self._stop(cause, grace)

    def _stop(self, cause: Cause, grace: float) -> None:
        """Ask politely, then kill, then kill the shim, then give up."""
        self._cause = self._cause or cause
        now = time.monotonic()
        orders = [self._channel.kill, self._channel.kill_shim, self._channel.hang_up]
        self._orders = [(now + grace + _OBEY * step, order) for step, order in enumerate(orders)]
        if grace > 0:
            self._channel.terminate()
        else:
            self._give_due_order()

    def _give_due_order(self) -> None:
        if self._orders and time.monotonic() >= self._orders[0][0]:
            self._orders.pop(0)[1]()

    def _ended(self, words: list[str]) -> Ended:
        if words[:1] == ["failed"]:
            self._channel.is_reusable = self._cause is None
            path, folder = self._path, self._command.cwd
            return self._record(explain_refusal(path, folder, words[1], int(words[2])))
        if words[:1] != ["ended"]:
            ended = self._record(self._cause or _LOST)
            return ended._replace(vouched=words == _CLEANED_UP)
        code, number, stragglers, left = map(int, words[1:5])
        jail = self._command.jail
        if jail and jail.wrapper and _SIGNALLED < code <= _SIGNALLED + _SIGNALS:
            number = code - _SIGNALLED  # how a wrapper tells of it
        # An order that crossed with this message would hit the shim's next command.
        self._channel.is_reusable = self._cause is None and not left
        cause = self._cause or exceeded(self._limits, words[5])
        ended = self._record(cause or _own_end(number, stragglers, left))
        return ended._replace(
            exit_code=None if number else code,
            signal=number or None,
            stragglers=stragglers,
            vouched=not left,
        )

    def _record(self, cause: Cause) -> Ended:
        written, cap = sum(self._files.sizes()), self._limits.output_bytes
        if written > cap:
            cause = breach(self._limits, 0, 0, written) or cause
            self._files.cut(cap)
            written = cap
        seconds = time.monotonic() - self._begun
        return Ended(cause.reason, None, None, seconds, 0, cause.detail, written)


def _wish(should_stop: ShouldStop | None) -> Cause | None:
    text = should_stop() if should_stop else None
    return None if text is None else Cause("stopped", text)


def _own_end(number: int, stragglers: int, left: int) -> Cause:
    if left:
        return Cause("lost", f"processes it started that cannot be killed: {left}")
    detail = f"processes it left running, now killed: {stragglers}" if stragglers else ""
    return Cause("signal" if number else "exit", detail)
