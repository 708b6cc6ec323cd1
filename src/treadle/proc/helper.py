"""Run programs beside this process: short helpers such as git, and treadle itself.

Not with the subprocess module, which takes longer to load than most helpers run.
"""

import _thread
import os
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from math import inf
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
# Before a command line: it runs outside of every repository, so that no setting there is read.
FROM_NOWHERE = ("/bin/sh", "-c", 'cd / && exec "$@"', "sh")
_IGNORED = (2, 13, 25)  # SIGINT, SIGPIPE and SIGXFSZ, which others should not ignore
# The signal module takes its time to load; seconds between the two.
_TERM, _KILL, _FAREWELL = 15, 9, 0.5


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float = 60.0,
    look: Callable[[], None] = lambda: None,
) -> Captured:
    """Run a helper to its end and return what it said; `look` now and then, and end it by raising.

    One that takes too long is ended, and so is one that goes on long after this process was asked
    to stop.
    """
    begun = time.monotonic()
    with _unnamed_files(stdin, b"", b"") as files:
        pid = _start(argv, env, files)
        try:
            code = _end_of(pid, timeout, partial(_check, argv[0], begun, look))
            if code is None:
                text = f"{argv[0]} did not finish within {timeout:g} s: {' '.join(argv)}"
                raise TreadleError(text, code="helper_timeout")
        except BaseException:
            _end(pid)
            raise
        return Captured(code, *map(_content, files[1:]))


def attend(argv: Sequence[str], env: Mapping[str, str], stop: Callable[[], int | None]) -> int:
    """Return a command's exit code; `stop` gives the signal that it is sent, once.

    It has a session of its own, so that Ctrl-C reaches it through us and not twice.
    """
    with _unnamed_files(b"") as (nothing,):
        return _attended(_start(argv, env, (nothing, 1, 2)), stop)


def follow(
    argv: Sequence[str],
    env: Mapping[str, str],
    stop: Callable[[], int | None],
    hear: Callable[[bytes], None],
    stdin: bytes = b"",
) -> Captured:
    """Return what a command said; `hear` gets what it says on stderr meanwhile, all of it."""
    with _unnamed_files(stdin, b"", b"") as files:
        code = _attended(_start(argv, env, files), stop, lambda: hear(_content(files[2])))
        return Captured(code, *map(_content, files[1:]))


def start(argv: Sequence[str], env: Mapping[str, str], files: Sequence[int]) -> int:
    """Start a command with these three streams and return its process; the caller ends it."""
    return _start(argv, env, files)


def _attended(
    pid: int, stop: Callable[[], int | None], look: Callable[[], None] = lambda: None
) -> int:
    sent: list[int] = []

    def pass_on() -> None:
        look()
        number = None if sent else stop()
        if number is not None:
            os.kill(pid, number)
            sent.append(number)

    code = _end_of(pid, inf, pass_on)
    assert code is not None
    return code


def foreground(argv: Sequence[str], env: Mapping[str, str], stdout: int = 1) -> int:
    """Let a person's program have the terminal until it ends, and return its exit code."""
    return _attended(_start(argv, env, (0, stdout, 2), is_apart=False), lambda: None)


def detach(
    argv: Sequence[str], env: Mapping[str, str], patience: float, stdin: bytes = b""
) -> Captured | None:
    """Return what a command said, or None if it still works after `patience` seconds."""
    with _unnamed_files(stdin, b"", b"") as files:
        pid = _start(argv, env, files)
        code = _end_of(pid, patience)
        if code is not None:
            return Captured(code, *map(_content, files[1:]))
    # Somebody must take note of its end, or it would stay in the process table.
    _thread.start_new_thread(os.waitpid, (pid, 0))
    return None


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


def _start(
    argv: Sequence[str], env: Mapping[str, str], files: Sequence[int], is_apart: bool = True
) -> int:
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
            return _in_session(start) if is_apart else start()
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
        with suppress(AttributeError, OSError):  # not everywhere, and some containers refuse it
            handle = os.pidfd_open(pid)
            stack.callback(os.close, handle)
            poll.register(handle, select.POLLIN)
            tick = _TICK if look else 100 * _TICK
        while time.monotonic() < deadline:
            poll.poll(min(tick, (deadline - time.monotonic()) * 1000))
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            if look:
                look()
    return None


def _check(program: str, begun: float, look: Callable[[], None]) -> None:
    if is_stop_over(begun):
        text = f"{program} went on after treadle was asked to stop, and was ended"
        raise TreadleError(text, code="helper_stopped")
    look()


def _end(pid: int) -> None:
    """End a helper with all of its group; git is given the time to remove its locks."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.killpg(pid, _TERM)
        _end_of(pid, _FAREWELL)
        os.killpg(pid, _KILL)
        os.waitpid(pid, 0)
