"""Call the git program, always with the same guards."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from treadle.errors import GitError, ProjectError, TreadleError
from treadle.proc import helper, sweep
from treadle.proc.helper import Captured

# Nothing a repository or a workspace brings may run a program or weaken a check here; the
# user's own settings stay on for the rest, above all identity and content filters.
_GUARDS = """
    core.hooksPath=/dev/null core.fsmonitor=false core.protectHFS=true core.protectNTFS=true
    core.trustctime=true core.checkStat=default core.safecrlf=false core.fsync=committed,reference
    core.fsyncMethod=fsync core.filesRefLockTimeout=1000 core.untrackedCache=false
    core.splitIndex=false checkout.workers=0 index.sparse=false index.skipHash=false
    diff.ignoreSubmodules=all submodule.recurse=false apply.ignoreWhitespace=no gc.auto=0
    maintenance.auto=false
"""
_KEPT_VARIABLES = """
    GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM GIT_CONFIG_COUNT GIT_CONFIG_KEY_
    GIT_CONFIG_VALUE_ GIT_CEILING_DIRECTORIES GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_EXEC_PATH GIT_SSL_
"""
_KEPT = tuple(_KEPT_VARIABLES.split())
# With these, a file of the current folder could slip into whatever a filter starts.
_STEERING = ("PYTHON", "LD_", "DYLD_", "BASH_FUNC_", "PERL5", "RUBY")
_NAMES = """
    BASH_ENV BASHOPTS CDPATH ENV GCONV_PATH IFS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS MAKEFILES
    MAKEFLAGS NODE_OPTIONS NODE_PATH PERLLIB PROMPT_COMMAND PS4 SHELLOPTS _JAVA_OPTIONS
"""
_STEERING_NAMES = frozenset(_NAMES.split())
# How the state of a checkout is asked for; which submodules count differs.
STATUS = ("--no-optional-locks", "status", "--porcelain", "-z", "-uall", "--no-renames")
PATIENCE = 600.0  # seconds for one call; only a filter or a file system that hangs takes so long
MEMORY = 6 << 30  # three times the largest change: git and a filter hold a file as a whole
_LATE = "helper_timeout"
_CUT_OFF = (_LATE, "helper_stopped")  # what it started may go on in a session of its own
_SAYS = ("fatal: ", "error: ")
_SILENT = "the remote end hung up"  # a content filter ended; why stands in the line before
# A shell, for no other program that is everywhere can limit memory and file sizes.
_LIMITED = ("/bin/sh", "-c", 'ulimit -S -d "$0"; ulimit -S -f 8388608; exec "$@"')
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


class GitCall(NamedTuple):
    """One call of git, ready to be started; `writable` is all that it has to write."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes | None
    writable: tuple[Path, ...]
    seconds: float


class Runner(Protocol):
    """Start git, wait for its end, and return what it said."""

    def __call__(self, job: GitCall) -> Captured:
        """Raise TreadleError with the code `helper_timeout` if it takes too long."""


def unconfined(job: GitCall) -> Captured:
    """Run git with all rights of the user: in the user's own checkout and on objects alone."""
    return helper.run(job.argv, job.env, job.stdin or b"", job.seconds)


class Reach(NamedTuple):
    """Who starts git, what it may write there, and how much memory and time it gets."""

    runner: Runner = unconfined
    writable: tuple[Path, ...] = ()
    memory: int | None = None
    seconds: float = PATIENCE


ANYWHERE = Reach()


def missing() -> ProjectError:
    """Say that there is no git."""
    return ProjectError(
        "git is not installed; treadle needs git 2.38 or newer",
        code="git_missing",
        fix=["treadle doctor"],
    )


def late(args: Sequence[str], seconds: float) -> GitError:
    """Say that git was ended because it took too long."""
    return GitError(
        f"git {verb(args)} did not finish within {seconds:g} s and was ended;"
        " a content filter, a pipe among the files or the disk may hang",
        code="git_timeout",
        fix=["git config --get-regexp ^filter", "find . -type p -o -type s"],
    )


def verb(args: Sequence[str]) -> str:
    """Return the command of git that its arguments name."""
    return next((word for word in args if not word.startswith("-")), "git")


def switches(config: Sequence[str]) -> list[str]:
    """Return the words that set what git must not be led to, and `config` after that."""
    return [word for pair in (*_GUARDS.split(), *config) for word in ("-c", pair)]


def environment(place: Mapping[str, str]) -> dict[str, str]:
    """Return this process's variables without those that steer git or what git starts.

    Filters find no program in the work tree that `place` names, nor in a folder that depends on
    where they run; Python imports nothing from there.
    """
    env = {name: value for name, value in os.environ.items() if not _steers(name)}
    around = place.get("GIT_DIR", "").rpartition("/")[0]
    folders = tuple(path for path in (place.get("GIT_WORK_TREE"), around) if path)
    env["PATH"] = ":".join(_outside(env.get("PATH", os.defpath), folders)) or os.defpath
    return env | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "PYTHONSAFEPATH": "1"}


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
    mark = mark_of(lock) if lock else f"git-{os.urandom(8).hex()}"
    env = {**environment(place), **place, sweep.MARKER: mark}
    argv = ("git", "-C", str(cwd), *switches(config), *args)
    if reach.memory:
        argv = (*_LIMITED, str(reach.memory >> 10), *argv)
    job = GitCall(argv, env, stdin, reach.writable, reach.seconds)
    done = _start(job, args, reach.runner)
    if done.returncode and lock and os.path.lexists(lock):
        sweep.end(mark)
        lock.unlink(missing_ok=True)
        done = _start(job, args, reach.runner)
    return done


def mark_of(lock: Path) -> str:
    """Return the mark by which every git that may hold this lock can be found."""
    return f"git-{os.fsencode(lock).hex()}"


def out(
    args: Sequence[str],
    place: Mapping[str, str],
    *,
    stdin: bytes | None = None,
    config: Sequence[str] = (),
    cwd: Path = Path("/"),
    reach: Reach = ANYWHERE,
) -> bytes:
    """Run git and return what it printed; GitError if it failed."""
    done = run(args, place, stdin=stdin, config=config, cwd=cwd, reach=reach)
    if done.returncode:
        raise failure(args, done)
    return done.stdout


def fields(args: Sequence[str], place: Mapping[str, str], cwd: Path = Path("/")) -> list[str]:
    """Run git and return what it printed with a NUL behind each; GitError if it failed."""
    return [field for field in os.fsdecode(out(args, place, cwd=cwd)).split("\0") if field]


def failure(args: Sequence[str], done: Captured) -> GitError:
    """Say what git said, and what helps."""
    name, stderr = verb(args), done.stderr.decode(errors="replace")
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


def _steers(name: str) -> bool:
    if name.startswith("GIT_"):
        return not name.startswith(_KEPT)
    return name.startswith(_STEERING) or name in _STEERING_NAMES


@lru_cache(maxsize=64)
def _outside(path: str, folders: tuple[str, ...]) -> list[str]:
    """Return the entries of a PATH that are whole and lie in none of the folders."""
    found = [item for item in path.split(":") if item.startswith("/")]
    return [
        item
        for item in found
        if not any(f"{os.path.realpath(item)}/".startswith(f"{folder}/") for folder in folders)
    ]


def _start(job: GitCall, args: Sequence[str], runner: Runner) -> Captured:
    try:
        return runner(job)
    except TreadleError as error:
        if error.code == "program_missing":
            raise missing() from error
        if error.code in _CUT_OFF:
            sweep.end(job.env[sweep.MARKER])
        if error.code != _LATE:
            raise
        raise late(args, job.seconds) from error


def _advice(stderr: str) -> tuple[str, ...]:
    for sign, fix in _ADVICE.items():
        if sign in stderr:
            return fix
    return ("treadle doctor",)
