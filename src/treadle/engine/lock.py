"""Let one process at a time drive the runs of a project."""

import contextlib
import fcntl
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from treadle.errors import FormatError, LockedError
from treadle.files import atomic
from treadle.ids import local, utc
from treadle.layout import Layout
from treadle.proc.identity import current, decode, is_alive, is_dead
from treadle.store.runs import RunRow

WORKER = "worker:"  # how the owner of a run that the fleet drives begins
MAIL = "mail"  # the owner of a run that ended elsewhere, until its letters are sent from here
_PAUSE = 0.2


class RunLock:
    """The run lock while this process holds it; `last` is who was killed while holding it."""

    def __init__(self, layout: Layout, *, wait: bool) -> None:
        self._layout = layout
        self._turn = threading.Lock()
        self._descriptor = _acquire(layout, wait)
        # Whoever leaves empties the file, so a name that is still there is a killed process's.
        self.last = str(_read(layout.run_lock).get("identity") or "") or None
        self._sign()

    def lost(self) -> str | None:
        """Say who took the lock after its file was deleted; if nobody did, lock the new file."""
        with self._turn:
            if self._is_in_place() or not self._layout.home.is_dir():
                return None
            try:
                again = _acquire(self._layout, wait=False)
            except LockedError as error:
                return error.message
            os.close(self._descriptor)
            self._descriptor = again
            self._sign()
            return None

    def leave(self) -> None:
        """Give the lock back."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(self._layout.run_lock.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def _sign(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, _signature(), 0)


@contextlib.contextmanager
def hold(layout: Layout, *, wait: bool = False) -> Iterator[RunLock]:
    """Hold the run lock; only a kill leaves its file signed."""
    lock = RunLock(layout, wait=wait)
    try:
        yield lock
    finally:
        lock.leave()


def holder(path: Path) -> dict[str, object] | None:
    """Return who holds the lock right now, or None; asking takes no lock that others wait for."""
    who = _read(path)
    return who if who and not _is_dead(str(who.get("identity"))) else None


class Waiter(NamedTuple):
    """A command that waits for the lock; `treadle stop NAME` calls it off."""

    name: str
    line: str
    since: str
    pid: str


def waiters(layout: Layout) -> list[Waiter]:
    """Return the commands that wait for the lock, the first of them first."""
    found = [
        Waiter(path.stem, str(it.get("line")), str(it.get("since")), str(it.get("pid")))
        for path, it in _notes(layout)
        if not _is_dead(str(it.get("identity")))
    ]
    return sorted(found, key=lambda it: it.since)


def call_off_waiter(layout: Layout, name: str) -> bool:
    """Let a command wait no longer: it ends by itself; tell whether there is one of that name."""
    is_there = name in {it.name for it in waiters(layout)}
    if is_there:
        (layout.waiters / f"{name}.json").unlink(missing_ok=True)
    return is_there


def is_abandoned(row: RunRow, dead: str | None = None) -> bool:
    """Tell whether the process that drove this run is provably gone.

    The fleet looks after its own: only its leader knows which workers live.
    """
    if row.owner and row.owner.startswith(WORKER):
        return False
    return row.owner in (None, dead) or _is_dead(row.owner or "")


def other_driver(rows: list[RunRow]) -> LockedError | None:
    """Return whom to name if a living process drives runs here although the lock is not its."""
    me = current().encode()
    for row in rows:
        with contextlib.suppress(FormatError):
            if row.owner and row.owner != me and is_alive(owner := decode(row.owner)):
                return _locked({"pid": owner.pid, "host": owner.host, "since": row.created_at})
    return None


def _acquire(layout: Layout, wait: bool) -> int:
    layout.locks.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(layout.run_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if _takes(descriptor):
        return descriptor
    if not wait:
        os.close(descriptor)
        raise _locked(_read(layout.run_lock))
    with _in_line(layout) as note:
        while not _takes(descriptor):
            if not note.exists():
                os.close(descriptor)
                fix = ["treadle runs list"]
                raise LockedError("called off while it waited", code="called_off", fix=fix)
            time.sleep(_PAUSE)
    return descriptor


def _takes(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _in_line(layout: Layout) -> Iterator[Path]:
    """Let others see that this command waits; whoever takes its note away calls it off."""
    layout.waiters.mkdir(exist_ok=True)
    for path, who in _notes(layout):
        if _is_dead(str(who.get("identity"))):
            path.unlink(missing_ok=True)
    words = ["treadle", *(word for word in sys.argv[1:] if word != "--json")]
    note = layout.waiters / f"wait-{os.urandom(3).hex()}.json"
    # Whole at once: whoever comes next would take an empty one for that of a dead process.
    atomic.write(note, _signature(line=shlex.join(words)), durable=False)
    try:
        yield note
    finally:
        note.unlink(missing_ok=True)


def _notes(layout: Layout) -> Iterator[tuple[Path, dict[str, object]]]:
    return ((path, _read(path)) for path in layout.waiters.glob("*.json"))


def _signature(**more: str) -> bytes:
    me, since = current(), utc(datetime.now(UTC))
    told = {"pid": me.pid, "host": me.host, "since": since, "identity": me.encode()}
    return json.dumps(told | more).encode()


def _locked(who: dict[str, object]) -> LockedError:
    since = local(str(who.get("since", "?")))
    text = f"pid {who.get('pid', '?')} on {who.get('host', '?')} since {since}"
    return LockedError(
        f"another treadle works in this project: {text}",
        fix=["treadle runs list"],
        details={"holder": who},
    )


def _is_dead(owner: str) -> bool:
    try:
        return is_dead(decode(owner))
    except FormatError:
        return True


def _read(path: Path) -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        if isinstance(found, dict):
            return found
    return {}
