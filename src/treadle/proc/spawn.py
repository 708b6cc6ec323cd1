"""Run a short helper from a command that must start at once, without the subprocess module."""

import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from treadle.errors import NotFoundError, TreadleError
from treadle.proc.captured import Captured

_CHUNK = 1 << 16
_KILL = 9  # SIGKILL; the signal module takes its time to load


def run(
    argv: Sequence[str], env: Mapping[str, str], stdin: bytes = b"", timeout: float = 60.0
) -> Captured:
    """Run a helper to its end and return what it said."""
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
        stdout, stderr = _talk(ours, stdin, time.monotonic() + timeout)
    except BaseException as error:
        with suppress(ProcessLookupError):
            os.killpg(pid, _KILL)
        os.waitpid(pid, 0)
        if isinstance(error, TimeoutError):
            text = f"{argv[0]} did not finish within {timeout:g} s"
            raise TreadleError(text, code="helper_timeout") from None
        raise
    return Captured(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), stdout, stderr)


def _start(argv: Sequence[str], env: Mapping[str, str], ends: tuple[int, int, int]) -> int:
    """Start the first program of that name in the PATH of `env`, not in that of this process."""
    actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(ends)]
    for folder in env.get("PATH", os.defpath).split(":"):
        path = os.path.join(folder, argv[0])  # noqa: PTH118  # a name with a slash stays as it is
        try:
            return os.posix_spawn(path, list(argv), env, file_actions=actions, setpgroup=0)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except OSError as error:
            text = f"{argv[0]} cannot be started ({error.strerror})"
            raise TreadleError(text, code="program_unusable") from error
    raise NotFoundError(f"{argv[0]} is not installed or not in PATH", code="program_missing")


def _talk(ends: tuple[int, int, int], data: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Feed and read at the same time, so that neither side waits for the other for ever."""
    into, out, err = ends
    said: dict[int, list[bytes]] = {out: [], err: []}
    poll, view = select.poll(), memoryview(data)
    for descriptor in said:
        poll.register(descriptor, select.POLLIN)
    poll.register(into, select.POLLOUT)
    open_ends = {into, out, err}
    os.set_blocking(into, False)
    while open_ends:
        ready = poll.poll(max(deadline - time.monotonic(), 0) * 1000)
        if not ready:
            _close(tuple(open_ends))
            raise TimeoutError
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
