"""Let one process at a time drive the runs of a project."""

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from treadle.errors import FormatError, LockedError
from treadle.ids import utc
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
        me, since = current(), utc(datetime.now(UTC))
        text = json.dumps({"pid": me.pid, "host": me.host, "since": since, "identity": me.encode()})
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)


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
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if not wait:
                os.close(descriptor)
                raise _locked(_read(layout.run_lock)) from error
            time.sleep(_PAUSE)
        else:
            return descriptor


def _locked(who: dict[str, object]) -> LockedError:
    text = f"pid {who.get('pid', '?')} on {who.get('host', '?')} since {who.get('since', '?')}"
    return LockedError(
        f"another treadle works in this project: {text}",
        fix=["treadle runs list", "treadle run --wait"],
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
