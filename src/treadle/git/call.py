"""Call the git program, always with the same guards."""

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from treadle.errors import GitError, TreadleError
from treadle.git import guards
from treadle.proc import capture, sweep
from treadle.proc.capture import Captured

PATIENCE = 600.0  # seconds for one call; only a filter or a file system that hangs takes so long
_LATE = "helper_timeout"
_CUT_OFF = (_LATE, "helper_stopped")  # what it started may go on in a session of its own
_SAYS = ("fatal: ", "error: ")
_SILENT = "the remote end hung up"  # a content filter ended; why stands in the line before
# A shell, for no other program that is everywhere can limit memory and file sizes.
_LIMITED = ("/bin/sh", "-c", 'ulimit -S -d "$0"; ulimit -S -f 8388608; exec "$@"')


class Job(NamedTuple):
    """One call of git, ready to be started; `writable` is all that it has to write."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    stdin: bytes | None
    writable: tuple[Path, ...]
    seconds: float


class Runner(Protocol):
    """Start git, wait for its end, and return what it said."""

    def __call__(self, job: Job) -> Captured:
        """Raise TreadleError with the code `helper_timeout` if it takes too long."""


def unconfined(job: Job) -> Captured:
    """Run git with all rights of the user: in the user's own checkout and on objects alone."""
    return capture.run(job.argv, cwd=job.cwd, env=job.env, stdin=job.stdin, timeout=job.seconds)


class Reach(NamedTuple):
    """Who starts git, what it may write there, and how much memory and time it gets."""

    runner: Runner = unconfined
    writable: tuple[Path, ...] = ()
    memory: int | None = None
    seconds: float = PATIENCE


ANYWHERE = Reach()


def run(
    args: Sequence[str],
    place: Mapping[str, str],
    *,
    stdin: bytes | None = None,
    config: Sequence[str] = (),
    cwd: Path = Path("/"),
    lock: Path | None = None,
    reach: Reach = ANYWHERE,
) -> Captured:
    """Run git on the repository that `place` names, whatever its exit code.

    `lock` is a lock file that only treadle takes: if it is still there when git has failed, a
    killed git left it; what is left of that git is ended and the lock cleared.
    """
    mark = _marker(lock) if lock else f"git-{secrets.token_hex(8)}"
    env = {**guards.environment(place), **place, sweep.MARKER: mark}
    argv = tuple(guards.command(args, config))
    if reach.memory:
        argv = (*_LIMITED, str(reach.memory >> 10), *argv)
    job = Job(argv, env, cwd, stdin, reach.writable, reach.seconds)
    done = _start(job, args, reach.runner)
    if done.returncode and lock and os.path.lexists(lock):
        sweep.end(mark)
        lock.unlink(missing_ok=True)
        done = _start(job, args, reach.runner)
    return done


def _start(job: Job, args: Sequence[str], runner: Runner) -> Captured:
    try:
        return runner(job)
    except TreadleError as error:
        if error.code in _CUT_OFF:
            sweep.end(job.env[sweep.MARKER])
        if error.code != _LATE:
            raise
        raise guards.late(args, job.seconds) from error


def out(
    args: Sequence[str],
    place: Mapping[str, str],
    *,
    stdin: bytes | None = None,
    config: Sequence[str] = (),
    lock: Path | None = None,
    reach: Reach = ANYWHERE,
) -> bytes:
    """Run git and return what it printed; GitError if it failed."""
    done = run(args, place, stdin=stdin, config=config, lock=lock, reach=reach)
    if done.returncode:
        raise failure(args, done)
    return done.stdout


def failure(args: Sequence[str], done: Captured) -> GitError:
    """Say what git said, and what helps."""
    name, stderr = guards.verb(args), done.stderr.decode(errors="replace")
    if done.returncode < 0:
        return GitError(f"git {name} was ended by signal {-done.returncode}")
    text = said(done) or f"exit code {done.returncode}"
    return GitError(
        f"git {name}: {text}", fix=_advice(stderr), details={"stderr": stderr[-4000:].strip()}
    )


def said(done: Captured) -> str:
    """Return the line in which git named the cause."""
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines()]
    lines = [line for line in lines if line and _SILENT not in line]
    causes = [line for line in lines if line.startswith(_SAYS)] or lines
    return causes[-1].removeprefix(_SAYS[0]).removeprefix(_SAYS[1]) if causes else ""


def _marker(lock: Path) -> str:
    """Return the mark by which every git that may hold this lock can be found."""
    return f"git-{hashlib.sha256(os.fsencode(lock)).hexdigest()[:16]}"


def _advice(stderr: str) -> tuple[str, ...]:
    for sign, fix in _ADVICE.items():
        if sign in stderr:
            return fix
    return ("treadle doctor",)


_ADVICE: dict[str, tuple[str, ...]] = {
    "No space left on device": ("df -h",),
    "Out of diskspace": ("df -h",),
    "Disk quota exceeded": ("df -h",),
    "File exists": ("git status", "ls .git/*.lock"),
    "git-lfs": ("git lfs version", "git lfs install"),
    "bad object": ("git fsck",),
    "corrupt": ("git fsck",),
    "unable to read": ("git fsck",),
}
