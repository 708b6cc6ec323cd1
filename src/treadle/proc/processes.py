"""List the machine's processes and end the ones below a given process.

The keeper loads this module, so it imports nothing that takes time to start.
"""

import os

Row = tuple[int, int, int, bool]  # process, parent, process group, is it more than a zombie

_KILL = 9
_PS = ("ps", "-axo", "pid=,ppid=,pgid=,stat=")
_PS_PLACES = ("/bin/ps", "/usr/bin/ps")


def rows() -> list[Row]:
    """Return every process, the youngest first where process ids tell."""
    return _rows_of_proc() if os.access("/proc/self/stat", os.R_OK) else rows_of_ps()


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


def terminate(root: int, group: int, number: int, spare: set[int]) -> None:
    """Send a polite signal once to everything below `root` but the `spare` ones."""
    table = doomed(rows(), root, group, set())
    if not spare and any(row[2] == group for row in table):
        _signal_group(group, number)
    for row in table:
        if row[0] not in spare and (spare or row[2] != group):
            _signal(row[0], number)


def kill(root: int, group: int, spare: set[int]) -> list[Row]:
    """Kill once what is below `root` or in `group`; return what was found there.

    The group goes first because a signal to a group cannot be outrun by forking. Then the
    youngest children, because a process that forks and exits all the time has changed its
    id by the time a slower look at everything is done.
    """
    table = rows()
    if group and any(row[2] == group for row in table):
        _signal_group(group, _KILL)
    for pid, parent, _, _ in table:
        if parent == root and pid not in spare:
            _signal(pid, _KILL)
    found = doomed(table, root, group, spare)
    for row in found:
        if row[1] != root and row[3]:
            _signal(row[0], _KILL)
    return found


def group_exists(group: int) -> bool:
    """Tell whether a process group has members."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _rows_of_proc() -> list[Row]:
    with os.scandir("/proc") as entries:
        pids = sorted((int(entry.name) for entry in entries if entry.name.isdigit()), reverse=True)
    return [row for pid in pids if (row := _row_of_proc(pid))]


def _row_of_proc(pid: int) -> Row | None:
    try:
        stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # The name in parentheses may hold anything, a closing parenthesis too.
        state, parent, group = os.read(stat, 1024).rpartition(b")")[2].split(None, 3)[:3]
    except (OSError, ValueError):
        return None
    finally:
        os.close(stat)
    return pid, int(parent), int(group), state not in b"ZX"


def rows_of_ps() -> list[Row]:
    """Ask `ps`, for systems without /proc."""
    text, ps = _read_ps()
    fields = [line.split() for line in text.splitlines()]
    table = [
        (int(pid), int(parent), int(group), not state.startswith(b"Z"))
        for pid, parent, group, state in (line for line in fields if len(line) == 4)
    ]
    return sorted((row for row in table if row[0] != ps), reverse=True)


def _read_ps() -> tuple[bytes, int]:
    out, into = os.pipe()
    path = next((place for place in _PS_PLACES if os.access(place, os.X_OK)), _PS_PLACES[0])
    pid = os.posix_spawn(path, _PS, {}, file_actions=[(os.POSIX_SPAWN_DUP2, into, 1)])
    os.close(into)
    chunks = []
    while chunk := os.read(out, 65536):
        chunks.append(chunk)
    os.close(out)
    os.waitpid(pid, 0)
    return b"".join(chunks), pid
