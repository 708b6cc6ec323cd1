"""Be the keeper: the parent of all shims, who ends whatever a lost shim leaves behind.

Each message on the inherited socket is one byte with a descriptor: the line of a new shim.
When the other end of that socket is closed, everything below the keeper is ended.
"""

import _socket
import gc
import os
import resource
import select
import time

from treadle.proc import processes
from treadle.proc.shim import Shim, adopt_orphans, drain, receive, watch_children

_TICK = 1000  # milliseconds between two looks at the orchestrator's life
_HUNT = 10  # milliseconds between two rounds against orphans
_PROCESSES = 16_384  # of one user, threads included
_PATIENCE = 30.0  # seconds after which processes that cannot be killed are left to the system


class Keeper:
    """The keeper's loop and what it knows of its shims."""

    def __init__(self, requests: _socket.socket) -> None:
        self._requests = requests
        self._parent = os.getppid()
        self._wake = watch_children()
        self._lines: dict[int, int] = {}  # shim to its line's descriptor
        self._lost: list[int] = []  # lines of killed shims whose orphans are being ended
        self._hunting = False
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(requests.fileno(), select.POLLIN)

    def serve(self) -> None:
        """Start shims and clean up after them until the orchestrator is gone."""
        while os.getppid() == self._parent:
            ready = dict(self._poll.poll(_HUNT if self._hunting else _TICK))
            if self._wake in ready:
                drain(self._wake)
                self._reap()
            if self._hunting:
                self._hunt()
            if self._requests.fileno() in ready and not self._accept():
                break
        self._end_all()

    def _accept(self) -> bool:
        try:
            data, fds = receive(self._requests, 1, 1)
        except OSError:
            return False
        for line in fds:
            self._start(line)
        return bool(data)

    def _start(self, line: int) -> None:
        try:
            pid = os.fork()
        except OSError:  # the end of the line tells the orchestrator
            os.close(line)
            return
        if not pid:
            self._become_shim(line)
        self._lines[pid] = line

    def _become_shim(self, line: int) -> None:
        status = 1
        try:
            os.setsid()
            adopt_orphans()
            for other in (self._requests.detach(), self._wake, *self._lines.values(), *self._lost):
                os.close(other)
            status = Shim(_socket.socket(fileno=line)).serve()
        finally:
            os._exit(status)

    def _reap(self) -> bool:
        """Collect the dead; tell whether any child is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return True
                line = self._lines.pop(pid, None)
                if line is not None and status:
                    self._lost.append(line)
                    self._hunting = True
                elif line is not None:
                    os.close(line)
        except ChildProcessError:
            return False

    def _hunt(self) -> None:
        """Kill orphans; once none is left, tell those who wait that all is clean."""
        self._reap()
        if processes.kill(os.getpid(), 0, set(self._lines)):
            return
        for line in self._lost:
            _tell_lost(line)
        self._lost.clear()
        self._hunting = False

    def _end_all(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        waiter = select.poll()
        waiter.register(self._wake, select.POLLIN)
        while self._reap() and time.monotonic() < deadline:
            processes.kill(os.getpid(), 0, set())
            waiter.poll(_HUNT)
            drain(self._wake)


def _tell_lost(line: int) -> None:
    try:
        os.write(line, b"lost\n")
    except OSError:
        return  # the orchestrator has hung up already
    finally:
        os.close(line)


def _limit_processes() -> None:
    """Let no storm of processes take the last ids from the user's own programs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = _PROCESSES if hard == resource.RLIM_INFINITY else min(hard, _PROCESSES)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def main(requests: int) -> None:
    """Run the keeper on an inherited socket."""
    gc.disable()  # collecting would copy the pages that shims share with their parent
    os.set_inheritable(requests, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_processes()
    adopt_orphans()
    Keeper(_socket.socket(fileno=requests)).serve()
