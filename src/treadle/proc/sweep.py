"""Find processes and end them: those below a process, and those that carry treadle's mark.

The keeper loads this module, so it imports nothing that takes time to start.
"""

import os
import select
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
    while pids := [pid for pid in stragglers(marker) if pid not in killed]:
        killed.update(pids)
        kill_all(pids)
    return len(killed)


def stragglers(marker: str) -> list[int]:
    """Return the processes whose environment says they belong to a step."""
    mark = os.fsencode(f"{MARKER}={marker}")
    if os.access("/proc/self/environ", os.R_OK):
        found = [pid for pid in _pids() if mark in _read(pid, "environ").split(b"\0")]
    else:  # where ps shows the environment behind the command
        found = of_ps(_ask_ps("axEww", "-o", "pid=,command=")[0], mark)
    return [pid for pid in found if pid != os.getpid()]


def of_ps(listing: bytes, mark: bytes) -> list[int]:
    """Pick the marked processes out of what `ps` printed."""
    lines = [line.split() for line in listing.splitlines()]
    return [int(words[0]) for words in lines if mark in words[1:]]


def kill_all(pids: list[int]) -> list[int]:
    """Kill processes and wait for their death; return the ones that do not die."""
    alive = [pid for pid in pids if send(pid, _KILL)]
    deadline = time.monotonic() + _PATIENCE
    while alive and time.monotonic() < deadline:
        time.sleep(0.005)
        alive = [pid for pid in alive if _is_running(pid)]
    return alive


def _is_running(pid: int) -> bool:
    row = _row_of_proc(pid)
    return row[3] if row else not os.access("/proc/self/stat", os.R_OK) and send(pid, 0)


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
    fields = _read(pid, "stat").rpartition(b")")[2].split(None, 3)
    return (pid, int(fields[1]), int(fields[2]), fields[0] not in b"ZX") if fields else None


def _read(pid: int, name: str) -> bytes:
    """Read what the kernel tells of a process; nothing if it has ended or is somebody else's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as handle:
            return handle.read()
    except OSError:
        return b""


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
