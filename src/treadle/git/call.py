"""Call the git program, always with the same guards."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from treadle.errors import GitError
from treadle.git import guards
from treadle.proc import capture, sweep
from treadle.proc.capture import Captured

_SAYS = ("fatal: ", "error: ")
_SILENT = "the remote end hung up"  # a content filter ended; why stands in the line before


def run(
    args: Sequence[str],
    place: Mapping[str, str],
    *,
    stdin: bytes | None = None,
    config: Sequence[str] = (),
    cwd: Path = Path("/"),
    lock: Path | None = None,
) -> Captured:
    """Run git on the repository that `place` names, whatever its exit code.

    `lock` is a lock file that only treadle takes: if it is still there when git has failed, a
    killed git left it; what is left of that git is ended and the lock cleared.
    """
    env = {**guards.environment(), **place}
    if lock:
        env[sweep.MARKER] = _marker(lock)
    argv = guards.command(args, config)
    done = capture.run(argv, cwd=cwd, env=env, stdin=stdin)
    if done.returncode and lock and os.path.lexists(lock):
        sweep.end(_marker(lock))
        lock.unlink(missing_ok=True)
        done = capture.run(argv, cwd=cwd, env=env, stdin=stdin)
    return done


def out(
    args: Sequence[str],
    place: Mapping[str, str],
    *,
    stdin: bytes | None = None,
    config: Sequence[str] = (),
    lock: Path | None = None,
) -> bytes:
    """Run git and return what it printed; GitError if it failed."""
    done = run(args, place, stdin=stdin, config=config, lock=lock)
    if done.returncode:
        raise failure(args, done)
    return done.stdout


def failure(args: Sequence[str], done: Captured) -> GitError:
    """Say what git said, and what helps."""
    name = next((word for word in args if not word.startswith("-")), "git")
    stderr = done.stderr.decode(errors="replace")
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
