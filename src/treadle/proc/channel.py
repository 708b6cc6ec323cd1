"""Talk to one shim: hand it a command, tell it to end it, hear how it ended."""

import marshal
import os
import select
import signal
import socket
from contextlib import suppress
from pathlib import Path

from treadle.errors import TreadleError
from treadle.proc import sweep
from treadle.proc.command import Command, Jail

_SEND_TIMEOUT = 30.0
_REOPEN = 1 << 14 | 1 << 1  # Landlock's rights to empty and to write a file


class Channel:
    """The orchestrator's end of a shim's line."""

    def __init__(self, sock: socket.socket, keeper: int) -> None:
        self.keeper = keeper
        self.shim = 0
        self.is_reusable = False  # until a command has ended and nothing is on the line
        self.is_broken = False  # it ended without a word, so nobody vouches for the children
        self._sock = sock
        self._sock.settimeout(_SEND_TIMEOUT)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def is_quiet(self) -> bool:
        """Tell whether an idle shim is still there: one that is gone has left word."""
        return not self._poll.poll(0)

    def send(self, body: bytes, fds: list[int]) -> bool:
        """Hand over a command and its files; tell whether the shim took them."""
        self.is_reusable = False
        frame = len(body).to_bytes(8, "big") + body
        try:
            sent = socket.send_fds(self._sock, [frame], fds)
            self._sock.sendall(memoryview(frame)[sent:])
        except OSError:
            return False
        return True

    def terminate(self) -> None:
        """Ask the command to end."""
        self._order(b"T")

    def kill(self) -> None:
        """End the command and everything below it."""
        self._order(b"K")

    def kill_shim(self) -> None:
        """End a shim that does not answer; the keeper cleans up after it."""
        self.is_broken = True
        sweep.send(self.shim, signal.SIGKILL)

    def receive(self, timeout: float) -> list[str] | None:
        """Return the next message's words, an empty list at the end, None if time is up."""
        if not self._poll.poll(timeout * 1000):
            return None
        try:
            data = self._sock.recv(4096)
        except ConnectionError:
            data = b""
        line, newline, _ = data.partition(b"\n")
        self.is_broken = self.is_broken or not newline
        return line.decode("ascii").split() if newline else []

    def hang_up(self) -> None:
        """Hear no more of a shim; should it ever go on, it ends what it runs."""
        with suppress(OSError):  # then nobody is there who could say more
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the line; a shim that still runs something ends it."""
        self._sock.close()

    def _order(self, order: bytes) -> None:
        with suppress(OSError):  # the next message, or the end, tells
            self._sock.sendall(order)


def frame_of(command: Command, program: str) -> bytes:
    """Write a command as bytes; raises ValueError for what no program can be given."""
    jail, argv, env = command.jail or Jail(), command.argv, dict(command.env)
    if jail.wrapper:
        argv = (*jail.wrapper, program, *argv[1:])
        program = argv[0]
    _check_texts([program, *argv, *env, *env.values()])
    if any("=" in name or not name for name in env):
        raise ValueError("the name of an environment variable is empty or holds =")
    rules = list(jail.rules)
    if jail.access:  # a shell opens /dev/stderr anew, and that is this file
        rules += [(_REOPEN, str(path)) for path in (command.stdout, command.stderr)]
    words = (str(command.cwd), program, argv, env)
    limits = (command.limits.memory_bytes, command.limits.processes)
    held = (jail.filter, jail.access, jail.scope, rules, jail.seen, jail.lasting)
    return marshal.dumps((words, limits, held))


def _check_texts(texts: list[str]) -> None:
    joined = "".join(texts)
    if "\0" in joined:
        raise ValueError("an argument or an environment variable holds a NUL character")
    try:
        os.fsencode(joined)
    except UnicodeEncodeError as error:
        raise ValueError("an argument or a variable holds half a character") from error


_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Files:
    """A command's three descriptors, open while it runs.

    The command gets them as they are, so nothing is copied, and sizes are asked of the open
    files, so no other file can be put in their place.
    """

    def __init__(self, command: Command) -> None:
        self._fds: list[int] = []
        same = command.stdout == command.stderr
        try:
            self._open(command.stdin or Path(os.devnull), os.O_RDONLY | os.O_CLOEXEC)
            self._open(command.stdout, _WRITE | (os.O_APPEND if same else 0))
            if not same:
                self._open(command.stderr, _WRITE)
        except OSError as error:
            self.close()
            raise TreadleError(
                f"{error.filename}: cannot be opened ({error.strerror})", code="unreadable_file"
            ) from error

    def _open(self, path: Path, flags: int) -> None:
        self._fds.append(os.open(path, flags, 0o600))

    @property
    def handed_over(self) -> list[int]:
        """Return the descriptors of stdin, stdout and stderr."""
        return [self._fds[0], self._fds[1], self._fds[-1]]

    def sizes(self) -> list[int]:
        """Return how much each output file holds."""
        return [os.fstat(fd).st_size for fd in self._fds[1:]]

    def cut(self, cap: int) -> None:
        """Shorten the files to `cap` bytes in all; the smaller one keeps up to half of it."""
        for fd, keep in zip(self._fds[1:], shares(self.sizes(), cap), strict=True):
            os.ftruncate(fd, keep)

    def close(self) -> None:
        """Close what is open."""
        while self._fds:
            os.close(self._fds.pop())


def shares(sizes: list[int], cap: int) -> list[int]:
    """Divide `cap` bytes among one or two files."""
    if len(sizes) == 1:
        return [min(sizes[0], cap)]
    first = min(sizes[0], max(cap // 2, cap - sizes[1]))
    return [first, min(sizes[1], cap - first)]
