"""Say which process this is, so that another one can prove later that it is dead."""

import functools
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

from treadle.errors import FormatError
from treadle.proc import helper

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


class Identity(NamedTuple):
    """One process for all time: its machine, that machine's boot, its id and its start.

    On Linux `boot` also names the space of process ids, because two containers share a boot
    but not their ids.
    """

    host: str
    boot: str
    pid: int
    started: str

    def encode(self) -> str:
        """Write it as text."""
        return json.dumps(self, separators=(",", ":"))


def decode(text: str) -> Identity:
    """Read what `encode` wrote."""
    try:
        host, boot, pid, started = json.loads(text)
        return Identity(str(host), str(boot), int(pid), str(started))
    except (ValueError, TypeError) as error:
        raise FormatError(f"{text!r} does not name a process") from error


def current() -> Identity:
    """Return who this process is."""
    return _of_pid(os.getpid())


@functools.lru_cache(maxsize=1)
def _of_pid(pid: int) -> Identity:
    return Identity(_host(), _boot(), pid, _started(pid) or "")


def is_alive(identity: Identity) -> bool:
    """Tell whether a process provably lives; unknown means False."""
    return identity.boot == _boot() and identity.started == _started(identity.pid) != ""


def is_dead(identity: Identity) -> bool:
    """Tell whether a process is provably dead; unknown means False."""
    boot, _, space = identity.boot.partition("/")
    our_boot, _, our_space = _boot().partition("/")
    if not boot or not our_boot:
        return False
    if boot != our_boot:
        return identity.host == _host()
    if space != our_space:
        return False
    started = _started(identity.pid)
    return started is None or bool(identity.started and started != identity.started)


def _host() -> str:
    """Name the machine; the name alone may be `localhost` on many of them."""
    for file in _MACHINE_IDS:
        try:
            digest = hashlib.sha256(file.read_bytes().strip()).hexdigest()
        except OSError:
            continue
        return f"{os.uname().nodename}-{digest[:12]}"
    return os.uname().nodename


def _boot() -> str:
    if sys.platform != "linux":
        return _ask("sysctl", "-n", "kern.bootsessionuuid")
    try:
        return f"{_BOOT_ID.read_text().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return a text that no other process with this id will have; None if it is dead."""
    return _started_in_proc(pid) if _BOOT_ID.exists() else started_by_ps(pid)


def _started_in_proc(pid: int) -> str | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return ""
    # After the name, which may hold anything, the list goes on with field 3.
    fields = stat.rpartition(b")")[2].split()
    state, threads, started = fields[0], int(fields[17]), fields[19]
    return None if state in b"ZX" and threads <= 1 else started.decode()


def started_by_ps(pid: int) -> str | None:
    """Ask `ps`, for systems without /proc."""
    state, _, started = _ask("ps", "-o", "stat=,lstart=", "-p", str(pid)).strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


def _ask(*argv: str) -> str:
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC"}
    return helper.run(argv, env).stdout.decode(errors="replace").strip()
