"""Run one command after another, each with everything it starts, for the keeper.

A shim is a fork of the keeper. It reads commands from its own socket, reports how each
ended, and ends everything below itself when the other end of the socket is closed. It
imports nothing that takes time to start: hence `_socket` and `_signal`, the C halves of
the public modules.
"""

import _signal  # type: ignore[import-not-found]  # no stubs for the C half
import _socket
import ctypes
import errno
import gc
import os
import resource
import select
import sys
import time

from treadle.proc import confine, sweep

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER in <linux/prctl.h>
_FAREWELL = 20  # milliseconds in which the kernel ends what was in a jail of its own processes
_UNKILLABLE = 10.0  # seconds after which a process that does not die is reported, not awaited
_CLOEXEC = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
_FD = 4
_IGNORED = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT)


def adopt_orphans() -> None:
    """Become the new parent of every orphan below, where the kernel can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def watch_children() -> int:
    """Return a descriptor that turns readable when a child changes."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    os.set_blocking(into, False)
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    inherited = _signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    if inherited != -1:
        os.close(inherited)
    return out


def reap() -> tuple[dict[int, int], bool]:
    """Collect the dead; return their statuses, and whether any child is left."""
    dead: dict[int, int] = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            dead[found[0]] = found[1]
    except ChildProcessError:
        return dead, False
    return dead, True


def await_child(wake: int, milliseconds: float) -> None:
    """Wait until a child changes, or for so long."""
    waiter = select.poll()
    waiter.register(wake, select.POLLIN)
    waiter.poll(milliseconds)
    drain(wake)


def drain(wake: int) -> None:
    """Forget the signals seen so far."""
    try:
        while os.read(wake, 512):
            pass
    except BlockingIOError:
        return


def receive(sock: _socket.socket, size: int, count: int) -> tuple[bytes, list[int]]:
    """Read bytes and up to `count` descriptors, none of which a child may inherit."""
    fds: list[int] = []
    data, notes, _, _ = sock.recvmsg(size, _socket.CMSG_SPACE(count * _FD), _CLOEXEC)
    for level, kind, packed in notes:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            fds += memoryview(packed[: len(packed) // _FD * _FD]).cast("i")
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, fds


class Shim:
    """The parent of one command at a time."""

    def __init__(self, sock: _socket.socket) -> None:
        self._sock = sock
        self._me = os.getpid()
        self._wake = watch_children()
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(sock.fileno(), select.POLLIN)
        self._forget()

    def serve(self) -> int:
        """Run commands until the other end is closed; return the exit status."""
        self._say("ready", self._me)
        while True:
            body, fds = self._next_command()
            if not body:
                return 0
            if not self._run(body, fds):
                return 1

    def _forget(self) -> None:
        self._main = 0
        self._is_wrapped = False
        self._status: int | None = None

    def _say(self, *words: object) -> None:
        try:
            self._sock.sendall(" ".join(map(str, words)).encode() + b"\n")
        except OSError:
            return  # nobody listens any more; the end of the socket says the same

    def _next_command(self) -> tuple[bytes, list[int]]:
        data, fds = receive(self._sock, 65536, 3)
        frame = bytearray(data)
        while data and (len(frame) < 8 or len(frame) < 8 + int.from_bytes(frame[:8], "big")):
            data = self._sock.recv(1 << 20)
            frame += data
        return (bytes(frame[8:]), fds) if data else (b"", [])

    def _run(self, body: bytes, fds: list[int]) -> bool:
        """Run one command to its end; tell whether this shim may serve another."""
        self._forget()
        stage = "folder"
        try:
            if len(fds) != 3:  # the table of open files is full, so some did not arrive
                raise OSError(errno.EMFILE, "")
            order = confine.StartOrder(body)
            os.chdir(order.folder)
            stage = "program"
            self._is_wrapped = order.is_wrapped
            self._main = self._start(order, fds)
        except OSError as error:
            refused = isinstance(error, confine.SandboxRefused)
            self._say("failed", "sandbox" if refused else stage, error.errno)
            return True
        finally:
            for fd in fds:
                os.close(fd)
            os.chdir("/")
        heard = self._supervise()
        met = next((name for name, is_met in sweep.met_limits(self._me).items() if is_met), "-")
        stragglers, left = self._end_all()
        sweep.remove_cgroup(self._me)
        order.over.release()
        self._say("ended", *self._outcome(), stragglers, left, met)
        return heard and not left

    def _start(self, order: confine.StartOrder, fds: list[int]) -> int:
        """Start a command in a group of its own, if there can be one."""
        is_held, pid = sweep.enter_cgroup(self._me, order.memory, order.processes), 0
        try:
            pid = confine.start(order, fds)
        finally:
            if is_held:
                sweep.leave_cgroup()
            if not pid:
                sweep.remove_cgroup(self._me)
        return pid

    def _outcome(self) -> tuple[int, int]:
        code = -_signal.SIGKILL if self._status is None else self._status
        return (code, 0) if code >= 0 else (-1, -code)

    def _supervise(self) -> bool:
        """Wait until the command ends or must end; tell whether anybody still listens."""
        while True:
            ready = dict(self._poll.poll())
            if self._wake in ready:
                drain(self._wake)
                self._reap()
                if self._status is not None:
                    return True
            if self._sock.fileno() in ready:
                order = self._hear()
                if order == b"T":
                    # The program around a command would take it along without a word.
                    spare = {self._main} if self._is_wrapped else set()
                    sweep.terminate(self._me, self._main, _signal.SIGTERM, spare)
                else:
                    return bool(order)

    def _hear(self) -> bytes:
        try:
            return self._sock.recv(1)
        except OSError:
            return b""

    def _reap(self) -> bool:
        """Collect the dead, the command among them; tell whether any child is left."""
        dead, has_children = reap()
        if self._main in dead:
            self._status = os.waitstatus_to_exitcode(dead[self._main])
        return has_children

    def _end_all(self) -> tuple[int, int]:
        """Kill what the command left; return how many there were and how many cannot die.

        A subreaper without children has no descendants at all. Elsewhere the command's
        process group is looked at as well.
        """
        deadline = time.monotonic() + _UNKILLABLE
        if self._is_wrapped and self._status is not None and self._reap():
            # A jail that has ended vanishes by itself, sooner than all processes are looked at.
            await_child(self._wake, _FAREWELL)
        killed = sweep.kill_cgroup(self._me) - {self._main}
        while (has_children := self._reap()) or sweep.send(-self._main, 0):
            found = sweep.kill(self._me, self._main, set())
            alive = {row[0] for row in found if row[3]}
            killed |= alive - {self._main}
            if time.monotonic() > deadline:
                return len(killed), len(alive) or 1
            if not has_children and not alive:
                break
            await_child(self._wake, 5)
        return len(killed), 0


_TICK = 1000  # milliseconds between two looks at the orchestrator's life
_HUNT = 10  # milliseconds between two rounds against orphans
_PROCESSES = 16_384  # of one user, threads included
_PATIENCE = 30.0  # seconds after which processes that cannot be killed are left to the system


class KeeperLoop:
    """The keeper's loop and what it knows of its shims."""

    def __init__(self, requests: _socket.socket) -> None:
        self._requests = requests
        self._parent = os.getppid()
        self._wake = watch_children()
        self._lines: dict[int, int] = {}  # shim to its line's descriptor
        self._lost: dict[int, int] = {}  # killed shims whose orphans are being ended
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(requests.fileno(), select.POLLIN)

    def serve(self) -> None:
        """Start shims and clean up after them until the orchestrator is gone."""
        while os.getppid() == self._parent:
            ready = dict(self._poll.poll(_HUNT if self._lost else _TICK))
            if self._wake in ready:
                drain(self._wake)
                self._reap()
            if self._lost:
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
            lines = (*self._lines.values(), *self._lost.values())
            for other in (self._requests.detach(), self._wake, *lines):
                os.close(other)
            status = Shim(_socket.socket(fileno=line)).serve()
        finally:
            os._exit(status)

    def _reap(self) -> bool:
        """Collect the dead, and note the shims that were killed; tell whether any child is left."""
        dead, has_children = reap()
        for pid in dead.keys() & self._lines.keys():
            line = self._lines.pop(pid)
            if dead[pid]:
                sweep.kill_cgroup(pid)
                self._lost[pid] = line
            else:
                os.close(line)
        return has_children

    def _hunt(self) -> None:
        """Kill orphans; once none is left, tell those who wait that all is clean."""
        self._reap()
        if sweep.kill(os.getpid(), 0, set(self._lines)):
            return
        for pid, line in self._lost.items():
            sweep.remove_cgroup(pid)
            _tell_lost(line)
        self._lost.clear()

    def _end_all(self) -> None:
        groups = [*self._lines, *self._lost]
        deadline = time.monotonic() + _PATIENCE
        while self._reap() and time.monotonic() < deadline:
            sweep.kill(os.getpid(), 0, set())
            await_child(self._wake, _HUNT)
        for pid in groups:
            sweep.remove_cgroup(pid)


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
    KeeperLoop(_socket.socket(fileno=requests)).serve()
