"""Run programs beside this process: short helpers such as git, treadle itself, the desktop.

Not with the subprocess module, which takes longer to load than most helpers run.
"""

import _thread
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import NamedTuple

from treadle.errors import NotFoundError, TreadleError


class Captured(NamedTuple):
    """What a helper said; a negative return code is the signal that ended it."""

    returncode: int
    stdout: bytes
    stderr: bytes


GRACE = 10.0  # seconds

_asked: list[float] = []  # signals belong to the process as a whole, and so does this


def note_stop() -> None:
    """Take down that the process was asked to stop."""
    _asked.append(time.monotonic())


def forget_stop() -> None:
    """Begin anew, with nobody having asked."""
    _asked.clear()


def is_stop_over(begun: float) -> bool:
    """Tell whether a helper begun at this time had its grace after somebody asked to stop.

    What is asked of helpers at the end, such as keeping an agent's edits, takes a moment.
    """
    return bool(_asked) and time.monotonic() - max(_asked[0], begun) > GRACE


_TICK, _GLANCE = 100, 2  # milliseconds between two looks at a child: where it wakes us, and else
_IGNORED = (13, 25)  # SIGPIPE and SIGXFSZ, which Python ignores and others should not
_KILL = 9  # SIGKILL; the signal module takes its time to load
_CANNOT_START = (126, 127)  # what a shell says of a program
_DESKTOP = 3.0  # seconds for the desktop to say that it cannot


def run(
    argv: Sequence[str], env: Mapping[str, str], stdin: bytes = b"", timeout: float = 60.0
) -> Captured:
    """Run a helper to its end and return what it said.

    One that takes too long is ended, and so is one that goes on long after this process was asked
    to stop.
    """
    begun = time.monotonic()
    with _unnamed_files(stdin, b"", b"") as files:
        pid = _start(argv, env, files)
        try:
            code = _end_of(pid, timeout, partial(_check_stop, argv[0], begun))
            if code is None:
                text = f"{argv[0]} did not finish within {timeout:g} s: {' '.join(argv)}"
                raise TreadleError(text, code="helper_timeout")
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(pid, _KILL)
            os.waitpid(pid, 0)
            raise
        return Captured(code, *map(_content, files[1:]))


def attend(argv: Sequence[str], env: Mapping[str, str], stop: Callable[[], int | None]) -> int:
    """Return a command's exit code; `stop` gives the signal that it is sent, once.

    It has a session of its own, so that Ctrl-C reaches it through us and not twice.
    """
    with _unnamed_files(b"") as (nothing,):
        pid = _start(argv, env, (nothing, 1, 2))
    sent: list[int] = []

    def pass_on() -> None:
        number = None if sent else stop()
        if number is not None:
            os.kill(pid, number)
            sent.append(number)

    code = _end_of(pid, inf, pass_on)
    assert code is not None
    return code


def detach(argv: Sequence[str], env: Mapping[str, str], patience: float) -> Captured | None:
    """Return what a command said, or None if it still works after `patience` seconds."""
    with _unnamed_files(b"", b"", b"") as files:
        pid = _start(argv, env, files)
        code = _end_of(pid, patience)
        if code is not None:
            return Captured(code, *map(_content, files[1:]))
    # Somebody must take note of its end, or it would stay in the process table.
    _thread.start_new_thread(os.waitpid, (pid, 0))
    return None


def show(path: Path) -> None:
    """Ask the desktop to open a file, in the user's browser most likely."""
    program = "open" if sys.platform == "darwin" else "xdg-open"
    # Outside of every repository, so that nothing in one can be taken for a part of it.
    words = ("sh", "-c", 'cd / && exec "$@"', "sh", program, str(path))
    done = detach(words, os.environ, _DESKTOP)
    if done and done.returncode in _CANNOT_START:
        text = f"{program} is not installed or not in PATH; open the link by hand"
        raise TreadleError(text, code="program_unusable")


@contextmanager
def _unnamed_files(*contents: bytes) -> Iterator[list[int]]:
    """Open files that have no name; unlike a pipe, none of them needs anybody to read it."""
    files: list[int] = []
    try:
        for content in contents:
            files.append(_unnamed())
            os.write(files[-1], content)
            os.lseek(files[-1], 0, os.SEEK_SET)
        yield files
    finally:
        for file in files:
            os.close(file)


def _unnamed() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("treadle")
    path = f"{os.environ.get('TMPDIR', '/tmp')}/treadle-{os.getpid()}-{time.monotonic_ns()}"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return file


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _start(argv: Sequence[str], env: Mapping[str, str], files: Sequence[int]) -> int:
    """Start the first program of that name in the PATH of `env`, not in that of this process."""
    actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files)]
    for folder in env.get("PATH", os.defpath).split(":"):
        path = os.path.join(folder, argv[0])  # a name with a slash stays as it is
        if not os.access(path, os.X_OK):  # a failed start would cost a fork
            continue
        start = partial(
            os.posix_spawn, path, tuple(argv), env, file_actions=actions, setsigdef=_IGNORED
        )
        try:
            return _in_session(start)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except OSError as error:
            text = f"{argv[0]} cannot be started ({error.strerror})"
            raise TreadleError(text, code="program_unusable") from error
    raise NotFoundError(f"{argv[0]} is not installed or not in PATH", code="program_missing")


def _in_session(start: Callable[..., int]) -> int:
    """Start it in a session of its own, so that Ctrl-C does not end it halfway."""
    try:
        return start(setsid=True)
    except NotImplementedError:  # Python was built for an old C library
        return start(setpgroup=0)


def _end_of(pid: int, seconds: float, look: Callable[[], None] | None = None) -> int | None:
    """Return a child's exit code, or None if it has none by then; `look` now and then."""
    deadline, tick, poll = time.monotonic() + seconds, _GLANCE, select.poll()
    with ExitStack() as stack:
        if hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(pid)
            stack.callback(os.close, handle)
            poll.register(handle, select.POLLIN)
            tick = _TICK
        while time.monotonic() < deadline:
            poll.poll(min(tick, (deadline - time.monotonic()) * 1000))
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            if look:
                look()
    return None


def _check_stop(program: str, begun: float) -> None:
    if is_stop_over(begun):
        text = f"{program} went on after treadle was asked to stop, and was ended"
        raise TreadleError(text, code="helper_stopped")
