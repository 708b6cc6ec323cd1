"""Run a short helper from a command that must start at once: no subprocess module, no session."""

import os
import select
from collections.abc import Mapping, Sequence
from contextlib import suppress

from treadle.errors import NotFoundError, TreadleError
from treadle.proc.captured import Captured

_CHUNK = 1 << 16


def run(argv: Sequence[str], env: Mapping[str, str], stdin: bytes = b"") -> Captured:
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
    stdout, stderr = _talk(*ours, stdin)
    return Captured(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), stdout, stderr)


def _start(argv: Sequence[str], env: Mapping[str, str], ends: tuple[int, int, int]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(ends)]
    try:
        return os.posix_spawnp(argv[0], list(argv), env, file_actions=actions)
    except FileNotFoundError as error:
        text = f"{argv[0]} is not installed or not in PATH"
        raise NotFoundError(text, code="program_missing") from error
    except OSError as error:
        text = f"{argv[0]} cannot be started ({error.strerror})"
        raise TreadleError(text, code="program_unusable") from error


def _talk(into: int, out: int, err: int, data: bytes) -> tuple[bytes, bytes]:
    """Feed and read at the same time, so that neither side waits for the other for ever."""
    said: dict[int, list[bytes]] = {out: [], err: []}
    poll, view = select.poll(), memoryview(data)
    for descriptor in said:
        poll.register(descriptor, select.POLLIN)
    poll.register(into, select.POLLOUT)
    open_ends = {into, out, err}
    os.set_blocking(into, False)
    while open_ends:
        for descriptor, _ in poll.poll():
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
