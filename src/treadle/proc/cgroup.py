"""Hold a command in a control group of its own, where the kernel lets us make one (version 2).

The kernel then counts the memory and the processes of all that a command starts, and kills all of
it at once. The shim loads this module, so it imports nothing that takes time to start.
"""

import os
import sys
import time

_EVENTS = {"memory": b"oom_kill", "pids": b"max"}  # controllers, and what tells of a limit met
_UNLIMITED = sys.maxsize
_EMPTYING = 0.5  # seconds for a group to be empty once everything in it is dead


def enter(shim: int, memory: int, processes: int) -> bool:
    """Move this process into a new group with these limits, if there can be one.

    What it starts then is born in there, and it must `leave` at once.
    """
    folder = group_of(shim)
    if not folder or min(memory, processes) == _UNLIMITED or not _make(folder):
        return False
    if memory < _UNLIMITED:
        _write(f"{folder}/memory.max", memory)
        _write(f"{folder}/memory.swap.max", 0)
        _write(f"{folder}/memory.oom.group", 1)
    if processes < _UNLIMITED:
        _write(f"{folder}/pids.max", processes)
    if _write(f"{folder}/cgroup.procs", 0):
        return True
    remove(shim)
    return False


def leave() -> None:
    """Move this process back to the group that it came from."""
    _write(f"{_places()[0]}/cgroup.procs", 0)


def held(shim: int) -> dict[str, bool]:
    """Return what the kernel counts for a shim's command, and whether it met its limit."""
    folder, found = group_of(shim), {}
    for name, event in _EVENTS.items() if folder else ():
        events = dict(line.split() for line in _read(f"{folder}/{name}.events").splitlines())
        if event in events:
            found[name] = events[event] != b"0"
    return found


def kill(shim: int) -> set[int]:
    """Kill everything in the group of a shim; return what that is."""
    folder = group_of(shim)
    found = set(map(int, _read(f"{folder}/cgroup.procs").split())) if folder else set()
    if found and shim not in found:
        _write(f"{folder}/cgroup.kill", 1)
    return found


def remove(shim: int) -> None:
    """Take a group away whose processes are dead, or dying."""
    folder, until = group_of(shim), time.monotonic() + _EMPTYING
    while folder and time.monotonic() < until:
        try:
            os.rmdir(folder)  # pathlib is what takes time
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.001)


def group_of(shim: int) -> str:
    """Return the folder that is the group of a shim's command; empty where there can be none."""
    above = _places()[1]
    space = os.readlink("/proc/self/ns/pid")[5:-1] if above else ""
    return f"{above}/treadle-{space}-{shim}" if above else ""


def _make(folder: str) -> bool:
    try:
        if os.path.exists(folder):  # of somebody who was killed: one in use cannot be removed
            os.rmdir(folder)
        os.mkdir(folder)
    except OSError:
        return False
    return True


_found: list[tuple[str, str]] = []  # once, while this process is where it was born


def _places() -> tuple[str, str]:
    """Return the folder of this process's own group and that in which it may make others."""
    if not _found:
        top, home = _own_group()
        above = (home, os.path.dirname(home)) if home != top else (home,)
        may = (it for it in above if home and _may_divide(home, it))
        _found.append((home, next(may, "")))
    return _found[0]


def _own_group() -> tuple[str, str]:
    """Return where the groups begin and where this process's own is; nothing if there are none."""
    mounts = [line.split() for line in _read("/proc/self/mountinfo").splitlines()]
    tops = [it[4].decode() for it in mounts if b"cgroup2" in it[6:] and it[3] == b"/"]
    own = [line[3:] for line in _read("/proc/self/cgroup").splitlines() if line.startswith(b"0::/")]
    if not tops or not own or b"/../" in own[0] + b"/":
        return "", ""
    return tops[0], tops[0] + os.fsdecode(own[0]).rstrip("/")


def _may_divide(home: str, folder: str) -> bool:
    """Tell whether groups with limits can be made in a folder, and entered and left from `home`."""
    names = {f"{home}/cgroup.procs", f"{folder}/cgroup.procs", folder}
    if not all(os.access(name, os.W_OK) for name in names):
        return False
    controllers, divided = f"{folder}/cgroup.controllers", f"{folder}/cgroup.subtree_control"
    wanted = [name for name in _EVENTS if name.encode() in _read(controllers).split()]
    if any(name.encode() not in _read(divided).split() for name in wanted):
        _write(divided, " ".join(f"+{name}" for name in wanted))
    return any(name.encode() in _read(divided).split() for name in wanted)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return b""


def _write(path: str, value: object) -> bool:
    try:
        with open(path, "wb", buffering=0) as handle:
            handle.write(str(value).encode())
    except OSError:
        return False
    return True
