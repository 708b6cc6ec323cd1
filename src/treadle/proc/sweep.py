"""Find and kill processes by the mark that treadle leaves in their environment."""

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

MARKER = "TREADLE_STEP"

_PROC = Path("/proc")
_PATIENCE = 5.0


def mark(folder: Path) -> str:
    """Return the mark of what works for a folder.

    A copied project has the same names, so the folder's own number is part of it.
    """
    try:
        found = folder.stat()
    except OSError:
        return folder.name
    return f"{folder.name}:{found.st_dev:x}:{found.st_ino:x}"


def stragglers(marker: str) -> list[int]:
    """Return the processes whose environment says they belong to a step."""
    mark = os.fsencode(f"{MARKER}={marker}")
    found = _in_proc(mark) if (_PROC / "self" / "environ").exists() else in_ps(mark)
    return [pid for pid in found if pid != os.getpid()]


def kill_all(pids: Iterable[int]) -> list[int]:
    """Kill processes and wait for their death; return the ones that do not die."""
    alive = [pid for pid in pids if _signal(pid, signal.SIGKILL)]
    deadline = time.monotonic() + _PATIENCE
    while alive and time.monotonic() < deadline:
        time.sleep(0.005)
        alive = [pid for pid in alive if _is_running(pid)]
    return alive


def end(marker: str) -> int:
    """Kill everything that belongs to a step, also what forks meanwhile; return how many."""
    killed: set[int] = set()
    while pids := [pid for pid in stragglers(marker) if pid not in killed]:
        killed.update(pids)
        kill_all(pids)
    return len(killed)


def _in_proc(mark: bytes) -> list[int]:
    return [
        int(entry.name)
        for entry in _PROC.iterdir()
        if entry.name.isdigit() and mark in _environ(entry).split(b"\0")
    ]


def _environ(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:  # it has just ended, or belongs to somebody else
        return b""


def in_ps(mark: bytes) -> list[int]:
    """Ask `ps`, which shows the environment behind the command on systems without /proc."""
    listing = subprocess.run(
        ["ps", "axEww", "-o", "pid=,command="], capture_output=True, check=False
    )
    return of_ps(listing.stdout, mark)


def of_ps(listing: bytes, mark: bytes) -> list[int]:
    """Pick the marked processes out of what `ps` printed."""
    lines = [line.split() for line in listing.splitlines()]
    return [int(words[0]) for words in lines if mark in words[1:]]


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_running(pid: int) -> bool:
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return _signal(pid, 0)
    return stat.rpartition(b")")[2].split()[0] not in b"ZX"
