"""Run short helper programs, such as git, without the subprocess module, which loads slowly."""

import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
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


_CHUNK = 1 << 16
_TICK = 0.5  # seconds between two looks whether somebody wants this process to stop
_IGNORED = (13, 25)  # SIGPIPE and SIGXFSZ, which Python ignores and others should not
_KILL = 9  # SIGKILL; the signal module takes its time to load


def run(
    argv: Sequence[str], env: Mapping[str, str], stdin: bytes = b"", timeout: float = 60.0
) -> Captured:
    """Run a helper to its end and return what it said.

    One that takes too long is ended, and so is one that goes on long after this process was asked
    to stop.
    """
    fed, out, err = os.pipe(), os.pipe(), os.pipe()
    theirs, ours = (fed[0], out[1], err[1]), (fed[1], out[0], err[0])
    try:
        pid = _start(argv, env, theirs)
    except BaseException:
        _close(ours)
        raise
    finally:
        _close(theirs)
    try:
        deadline = time.monotonic() + timeout
        stdout, stderr = _talk(ours, stdin, deadline)
        status = _end_of(pid, deadline)
    except BaseException as error:
        with suppress(ProcessLookupError):
            os.killpg(pid, _KILL)
        os.waitpid(pid, 0)
        raise _explain(error, argv, timeout) from error
    return Captured(os.waitstatus_to_exitcode(status), stdout, stderr)


def _end_of(pid: int, deadline: float) -> int:
    """Wait for the end of a helper that has nothing more to say; it comes at once, or never."""
    wait, begun = 0.0002, time.monotonic()
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        if error := _over(begun, deadline):
            raise error
        time.sleep(wait)
        wait = min(wait * 2, 0.05)


def _start(argv: Sequence[str], env: Mapping[str, str], ends: tuple[int, int, int]) -> int:
    """Start the first program of that name in the PATH of `env`, not in that of this process."""
    actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(ends)]
    for folder in env.get("PATH", os.defpath).split(":"):
        path = os.path.join(folder, argv[0])  # noqa: PTH118  # a name with a slash stays as it is
        if not os.access(path, os.X_OK):  # a failed start would cost a fork
            continue
        try:
            return _spawn(path, list(argv), env, actions)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except OSError as error:
            text = f"{argv[0]} cannot be started ({error.strerror})"
            raise TreadleError(text, code="program_unusable") from error
    raise NotFoundError(f"{argv[0]} is not installed or not in PATH", code="program_missing")


def _spawn(
    path: str, argv: list[str], env: Mapping[str, str], actions: Sequence[tuple[int, int, int]]
) -> int:
    """Start it in a session of its own, so that Ctrl-C does not end it halfway."""
    start = partial(os.posix_spawn, path, argv, env, file_actions=actions, setsigdef=_IGNORED)
    try:
        return start(setsid=True)
    except NotImplementedError:  # an old C library
        return start(setpgroup=0)


def _explain(error: BaseException, argv: Sequence[str], timeout: float) -> BaseException:
    """Say why a helper was ended, where that was its own fault."""
    if isinstance(error, TimeoutError):
        text = f"{argv[0]} did not finish within {timeout:g} s: {' '.join(argv)}"
        return TreadleError(text, code="helper_timeout")
    if isinstance(error, InterruptedError):
        text = f"{argv[0]} went on after treadle was asked to stop, and was ended"
        return TreadleError(text, code="helper_stopped")
    return error


def _talk(ends: tuple[int, int, int], data: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Feed and read at the same time, so that neither side waits for the other for ever.

    Raises TimeoutError, or InterruptedError if this process is to stop. The ends are closed then.
    """
    into, out, err = ends
    said: dict[int, list[bytes]] = {out: [], err: []}
    poll, view = select.poll(), memoryview(data)
    for descriptor in said:
        poll.register(descriptor, select.POLLIN)
    poll.register(into, select.POLLOUT)
    open_ends = {into, out, err}
    os.set_blocking(into, False)
    begun = time.monotonic()
    while open_ends:
        ready = poll.poll(max(min(deadline - time.monotonic(), _TICK), 0) * 1000)
        if error := _over(begun, deadline):
            _close(tuple(open_ends))
            raise error
        for descriptor, _ in ready:
            if descriptor == into:
                view = _feed(into, view)
                is_over = not view
            else:
                said[descriptor].append(os.read(descriptor, _CHUNK))
                is_over = not said[descriptor][-1]
            if is_over:
                poll.unregister(descriptor)
                open_ends.discard(descriptor)
                os.close(descriptor)
    return b"".join(said[out]), b"".join(said[err])


def _over(begun: float, deadline: float) -> OSError | None:
    if time.monotonic() >= deadline:
        return TimeoutError()
    return InterruptedError() if is_stop_over(begun) else None


def _feed(into: int, view: memoryview) -> memoryview:
    """Write what fits; a helper that wants no more has heard enough."""
    with suppress(BlockingIOError):
        try:
            return view[os.write(into, view) :] if view else view
        except BrokenPipeError:
            return view[:0]
    return view


def _close(ends: Sequence[int]) -> None:
    for end in ends:
        os.close(end)
