"""Run commands so that nothing they start outlives them or the orchestrator.

Every command has a shim for a parent and every shim has the keeper for a parent, a small
process of its own. Orphans fall to the shim, those of a killed shim fall to the keeper. Both
end everything below them when their line to this process breaks, so that a kill -9 of this
process leaves nothing alive.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

from treadle.errors import TreadleError
from treadle.proc import environment, sweep
from treadle.proc.channel import Channel, Files, frame_of
from treadle.proc.command import (
    Cause,
    Command,
    Ended,
    Limits,
    Reason,
    find_program,
)
from treadle.proc.watch import OnTick, ShouldStop, Watch

__all__ = ["Command", "Ended", "Keeper", "Limits", "Reason"]

# An imported module has its bytecode cached, a script has not.
_CODE = "from treadle.proc.shim import main; main(int(sys.argv[1]))"
_ADOPTS = sys.platform == "linux"  # elsewhere orphans fall to the system's first process
_GREETING = 10.0  # seconds a keeper has to bring a shim up
_DYING = 0.05  # seconds until a killed process counts as dead
_CLOSING = 35.0  # a little more than the keeper's own patience
_MAX_IDLE = 64
_TRIES = 3


class Keeper:
    """The keeper process and the idle shims; many threads may run commands at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._idle: list[Channel] = []
        self._is_closed = False

    def start(self) -> None:
        """Start the keeper process now, not with the first command."""
        with self._lock:
            self._ensure_started()

    @property
    def pid(self) -> int | None:
        """Return the keeper's process id."""
        return self._process.pid if self._process else None

    def run(
        self,
        command: Command,
        *,
        should_stop: ShouldStop | None = None,
        on_tick: OnTick | None = None,
    ) -> Ended:
        """Run a command to its end, and everything it starts with it."""
        with contextlib.closing(Files(command)) as files:
            path = find_program(command)
            if isinstance(path, Cause):
                return _refused(path)
            try:
                frame = frame_of(command, path)
            except ValueError as error:
                return _refused(Cause("not_executable", str(error)))
            channel = self._take()
            try:
                if not channel.send(frame, files.handed_over):
                    channel.kill_shim()
                ended = Watch(channel, files, command, path).follow(should_stop, on_tick)
            finally:
                self._give_back(channel)
        return _swept(ended, command) if channel.is_broken or not _ADOPTS else ended

    def close(self) -> None:
        """End the keeper and whatever still runs below it."""
        with self._lock:
            self._is_closed = True
            self._hang_up()
            if self._process:
                _await(self._process)
                self._process = None

    def __enter__(self) -> "Keeper":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> Channel:
        """Return the line of a shim that waits for a command."""
        with self._lock:
            self._ensure_started()
            while self._idle:
                channel = self._idle.pop()
                if channel.is_quiet():
                    return channel
                channel.close()
            return self._open()

    def _give_back(self, channel: Channel) -> None:
        with self._lock:
            if channel.is_reusable and channel.keeper == self.pid and len(self._idle) < _MAX_IDLE:
                self._idle.append(channel)
                return
        channel.close()

    def _open(self) -> Channel:
        for _ in range(_TRIES):
            process, requests = self._ensure_started()
            channel = _ask_for_shim(requests, process.pid)
            words = channel.receive(_GREETING)
            if words:
                channel.shim = int(words[1])
                return channel
            channel.close()
            if words is None:  # it hangs; its shims get along without it
                process.kill()
            time.sleep(_DYING)
        raise TreadleError(
            "treadle cannot start another process here; close some programs and try again",
            code="no_process",
        )

    def _ensure_started(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        if self._is_closed:
            raise TreadleError(
                "treadle is shutting down and starts nothing any more", code="closed"
            )
        if self._process and self._requests and self._process.poll() is None:
            return self._process, self._requests
        self._hang_up()
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = _start(theirs.fileno())
        return self._process, self._requests

    def _hang_up(self) -> None:
        while self._idle:
            self._idle.pop().close()
        if self._requests:
            self._requests.close()
            self._requests = None


def _start(requests: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        environment.python(_CODE, str(requests), bare=True),
        env=environment.without_python(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        pass_fds=[requests],
        start_new_session=True,  # the terminal's Ctrl-C is for the orchestrator alone
    )


def _ask_for_shim(requests: socket.socket, keeper: int) -> Channel:
    ours, theirs = socket.socketpair()
    with theirs, contextlib.suppress(OSError):  # a dead keeper shows as the end of the line
        socket.send_fds(requests, [b"+"], [theirs.fileno()])
    return Channel(ours, keeper)


def _await(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_CLOSING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _refused(cause: Cause) -> Ended:
    return Ended(cause.reason, None, None, 0.0, 0, cause.detail, 0)


def _swept(ended: Ended, command: Command) -> Ended:
    """Look for survivors by their mark where neither shim nor keeper could vouch."""
    marker = command.env.get(sweep.MARKER)
    killed = sweep.end(marker) if marker else 0
    return ended._replace(stragglers=ended.stragglers + killed)
