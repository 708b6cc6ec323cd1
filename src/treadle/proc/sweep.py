"""Find processes and end them: below a process, in a control group, or by treadle's mark.

The keeper loads this module, so it imports nothing that takes time to start.
"""

import os
import select
import sys
import time

MARKER = "TREADLE_STEP"

Row = tuple[int, int, int, bool]  # process, parent, process group, is it more than a zombie

_KILL = 9
_PATIENCE = 5.0  # seconds for killed processes to die
_PS_PLACES = ("/bin/ps", "/usr/bin/ps")
_PS_TIME = 10_000  # milliseconds without a word after which ps is not waited for


def mark(folder: "os.PathLike[str]") -> str:
    """Return the mark of what works for a folder.

    A copied project has the same names, so the folder's own number is part of it.
    """
    name = os.path.basename(folder)  # pathlib is what takes time
    try:
        found = os.stat(folder)
    except OSError:
        return name
    return f"{name}:{found.st_dev:x}:{found.st_ino:x}"


def end(marker: str) -> int:
    """Kill everything that belongs to a step, also what forks meanwhile; return how many."""
    killed: set[int] = set()
    deadline = time.monotonic()
    while pids := stragglers(marker):
        if not killed.issuperset(pids):
            deadline = time.monotonic() + _PATIENCE
        elif time.monotonic() > deadline:
            break
        for pid in pids:
            send(pid, _KILL)
        killed.update(pids)
        time.sleep(0.005)
    return len(killed)


def stragglers(marker: str) -> list[int]:
    """Return the processes whose environment says they belong to a step."""
    mark = os.fsencode(f"{MARKER}={marker}")
    if os.access("/proc/self/environ", os.R_OK):
        found = [pid for pid in _pids() if mark in _read(f"/proc/{pid}/environ").split(b"\0")]
    else:  # where ps shows the environment behind the command
        found = of_ps(_ask_ps("axEww", "-o", "pid=,command=")[0], mark)
    return [pid for pid in found if pid != os.getpid()]


def of_ps(listing: bytes, mark: bytes) -> list[int]:
    """Pick the marked processes out of what `ps` printed."""
    lines = [line.split() for line in listing.splitlines()]
    return [int(words[0]) for words in lines if mark in words[1:]]


def terminate(root: int, group: int, number: int, spare: set[int]) -> None:
    """Send a polite signal once to everything below `root` but the `spare` ones."""
    for row in doomed(rows(), root, group, set()):
        if row[0] not in spare:
            send(row[0], number)


def kill(root: int, group: int, spare: set[int]) -> list[Row]:
    """Kill once what is below `root` or in `group`; return what was found there.

    The group goes first because a signal to a group cannot be outrun by forking. Then the
    youngest children, because a process that forks and exits all the time has changed its
    id by the time a slower look at everything is done.
    """
    table = rows()
    if group and any(row[2] == group for row in table):
        send(-group, _KILL)
    for pid, parent, _, _ in table:
        if parent == root and pid not in spare:
            send(pid, _KILL)
    found = doomed(table, root, group, spare)
    for row in found:
        if row[1] != root and row[3]:
            send(row[0], _KILL)
    return found


def doomed(table: list[Row], root: int, group: int, spare: set[int]) -> list[Row]:
    """Return what is below `root` or in `group`, without the `spare` ones and their families."""
    children: dict[int, list[Row]] = {}
    for row in table:
        children.setdefault(row[1], []).append(row)
    found = {row[0]: row for row in table if group and row[2] == group and row[0] != root}
    waiting = [root, *found]
    while waiting:
        for row in children.get(waiting.pop(), ()):
            if row[0] not in found and row[0] not in spare:
                found[row[0]] = row
                waiting.append(row[0])
    return list(found.values())


def send(pid: int, number: int) -> bool:
    """Send a signal to a process, or to the group of a negative number; tell whether it exists."""
    try:
        os.kill(pid, number)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True


def rows() -> list[Row]:
    """Return every process, the youngest first where process ids tell."""
    if not os.access("/proc/self/stat", os.R_OK):
        return rows_of_ps()
    return [row for pid in _pids() if (row := _row_of_proc(pid))]


def _pids() -> list[int]:
    with os.scandir("/proc") as entries:
        return sorted((int(entry.name) for entry in entries if entry.name.isdigit()), reverse=True)


def _row_of_proc(pid: int) -> Row | None:
    # The name in parentheses may hold anything, a closing parenthesis too.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 3)
    return (pid, int(fields[1]), int(fields[2]), fields[0] not in b"ZX") if fields else None


def rows_of_ps() -> list[Row]:
    """Ask `ps`, for systems without /proc."""
    text, ps = _ask_ps("-axo", "pid=,ppid=,pgid=,stat=")
    fields = [line.split() for line in text.splitlines()]
    table = [
        (int(pid), int(parent), int(group), not state.startswith(b"Z"))
        for pid, parent, group, state in (line for line in fields if len(line) == 4)
    ]
    return sorted((row for row in table if row[0] != ps), reverse=True)


def _ask_ps(*options: str) -> tuple[bytes, int]:
    """Return what ps says, and its own process id."""
    out, into = os.pipe()
    path = next((place for place in _PS_PLACES if os.access(place, os.X_OK)), _PS_PLACES[0])
    actions = [(os.POSIX_SPAWN_DUP2, into, 1)]
    pid = os.posix_spawn(path, ("ps", *options), {}, file_actions=actions)
    os.close(into)
    chunks, poll = [], select.poll()
    poll.register(out, select.POLLIN)
    while poll.poll(_PS_TIME) and (chunk := os.read(out, 65536)):
        chunks.append(chunk)
    os.close(out)
    send(pid, _KILL)
    os.waitpid(pid, 0)
    return b"".join(chunks), pid


_EVENTS = {"memory": b"oom_kill", "pids": b"max"}  # controllers, and what tells of a limit met
_UNLIMITED = sys.maxsize
_EMPTYING = 0.5  # seconds for a group to be empty once everything in it is dead


def enter_cgroup(shim: int, memory: int, processes: int) -> bool:
    """Move this process into a new group with these limits, if there can be one.

    What it starts then is born in there, and it must `leave_cgroup` at once.
    """
    folder = cgroup_of(shim)
    if not folder or min(memory, processes) == _UNLIMITED or not _make_cgroup(folder):
        return False
    if memory < _UNLIMITED:
        _write(f"{folder}/memory.max", memory)
        _write(f"{folder}/memory.swap.max", 0)
        _write(f"{folder}/memory.oom.group", 1)
    if processes < _UNLIMITED:
        _write(f"{folder}/pids.max", processes)
    if _write(f"{folder}/cgroup.procs", 0):
        return True
    remove_cgroup(shim)
    return False


def leave_cgroup() -> None:
    """Move this process back to the group that it came from."""
    _write(f"{_places()[0]}/cgroup.procs", 0)


def met_limits(shim: int) -> dict[str, bool]:
    """Return what the kernel counts for a shim's command, and whether it met its limit."""
    folder, found = cgroup_of(shim), {}
    for name, event in _EVENTS.items() if folder else ():
        events = dict(line.split() for line in _read(f"{folder}/{name}.events").splitlines())
        if event in events:
            found[name] = events[event] != b"0"
    return found


def kill_cgroup(shim: int) -> set[int]:
    """Kill everything in the group of a shim; return what that is."""
    folder = cgroup_of(shim)
    found = set(map(int, _read(f"{folder}/cgroup.procs").split())) if folder else set()
    if found and shim not in found:
        _write(f"{folder}/cgroup.kill", 1)
    return found


def remove_cgroup(shim: int) -> None:
    """Take a group away whose processes are dead, or dying."""
    folder, until = cgroup_of(shim), time.monotonic() + _EMPTYING
    while folder and time.monotonic() < until:
        try:
            os.rmdir(folder)  # pathlib is what takes time
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.001)


def cgroup_of(shim: int) -> str:
    """Return the folder that is the group of a shim's command; empty where there can be none."""
    above = _places()[1]
    space = os.readlink("/proc/self/ns/pid")[5:-1] if above else ""
    return f"{above}/treadle-{space}-{shim}" if above else ""


def _make_cgroup(folder: str) -> bool:
    try:
        if os.path.exists(folder):  # of somebody who was killed: one in use cannot be removed
            os.rmdir(folder)
        os.mkdir(folder)
    except OSError:
        return False
    return True


_cgroup_places: list[tuple[str, str]] = []  # once, while this process is where it was born


def _places() -> tuple[str, str]:
    """Return the folder of this process's own group and that in which it may make others."""
    if not _cgroup_places:
        top, home = _own_cgroup()
        above = (home, os.path.dirname(home)) if home != top else (home,)
        may = (it for it in above if home and _may_divide(home, it))
        _cgroup_places.append((home, next(may, "")))
    return _cgroup_places[0]


def _own_cgroup() -> tuple[str, str]:
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
    """Read what the kernel tells; nothing if it is gone or somebody else's."""
    try:
        with open(path, "rb", buffering=0) as handle:
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
