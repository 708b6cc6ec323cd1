"""Let one process at a time drive the runs of a project."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from treadle.errors import FormatError, LockedError
from treadle.ids import utc
from treadle.layout import Layout
from treadle.proc.identity import Identity, current, decode, is_dead
from treadle.store.runs import RunRow

WORKER = "worker:"  # how the owner of a run that the fleet drives begins
MAIL = "mail"  # the owner of a run that ended elsewhere, until its letters are sent from here
_PAUSE = 0.2


@contextlib.contextmanager
def hold(layout: Layout, *, wait: bool = False) -> Iterator[str | None]:
    """Hold the run lock; yields the identity of the last holder if it did not leave cleanly.

    The holder writes its name into the file and empties it when it leaves. A name that is
    still there belongs to a process that is dead: its lock would not be ours otherwise.
    """
    layout.locks.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(layout.run_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, layout.run_lock, wait)
        unclean = os.fstat(descriptor).st_size > 0
        last = str(_read(layout.run_lock).get("identity", "")) if unclean else None
        _sign(descriptor, current())
        yield last
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def holder(path: Path) -> dict[str, object] | None:
    """Return who holds the lock right now, or None."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(path)
    finally:
        os.close(descriptor)
    return None


def is_abandoned(row: RunRow, dead: str | None = None) -> bool:
    """Tell whether the process that drove this run is provably gone.

    The fleet looks after its own: only its leader knows which workers live.
    """
    if row.owner and row.owner.startswith(WORKER):
        return False
    if row.owner is None or row.owner == dead:
        return True
    try:
        return is_dead(decode(row.owner))
    except FormatError:
        return True


def _acquire(descriptor: int, path: Path, wait: bool) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if not wait:
                raise _locked(path) from error
            time.sleep(_PAUSE)
        else:
            return


def _locked(path: Path) -> LockedError:
    who = _read(path)
    text = f"pid {who.get('pid', '?')} on {who.get('host', '?')} since {who.get('since', '?')}"
    return LockedError(
        f"another treadle works in this project: {text}",
        fix=["treadle runs list", "treadle run --wait"],
        details={"holder": who},
    )


def _sign(descriptor: int, me: Identity) -> None:
    since = utc(datetime.now(UTC))
    text = json.dumps({"pid": me.pid, "host": me.host, "since": since, "identity": me.encode()})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _read(path: Path) -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        if isinstance(found, dict):
            return found
    return {}
