"""Call the git program, always with the same guards."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from signal import SIGKILL
from typing import NamedTuple, Protocol

import treadle
from treadle.errors import BlockedError, GitError, ProjectError, TreadleError, argument
from treadle.layout import find_work_tree
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
    maintenance.auto=false safe.bareRepository=explicit
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
# Git reads these by itself wherever they lie, some of them through a link.
_READ = frozenset((".gitattributes", ".gitignore", ".gitmodules", ".mailmap"))
_MAX_BYTES = 16 << 20
_SLOW, _GLANCE = 0.2, 0.05  # seconds until git is looked after, and for each look
_LATE = "helper_timeout"
# What git started may go on in a session of its own.
_CUT_OFF = (_LATE, "helper_stopped", "special_file")
_SAYS = ("fatal: ", "error: ")
_SILENT = "the remote end hung up"  # a content filter ended; why stands in the line before
# A shell, for no other program that is everywhere can limit memory and file sizes.
_LIMITED = ("/bin/sh", "-c", 'ulimit -S -d "$0"; ulimit -S -f 8388608; exec "$@"')
_FULL = ("df -h",)
# What says nothing of the change that git was to work on: it befell git, and need not again.
BEFALLS = ("disk_full", "git_killed")
_ADVICE: dict[str, tuple[str, ...]] = {
    "No space left on device": _FULL,
    "Out of diskspace": _FULL,
    "Disk quota exceeded": _FULL,
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
    look = _watch(Path(job.env.get("GIT_WORK_TREE", "/dev/null")))
    return helper.run(job.argv, job.env, job.stdin or b"", job.seconds, look)


class Reach(NamedTuple):
    """Who starts git, what it may write there, and how much memory and time it gets."""

    runner: Runner = unconfined
    writable: tuple[Path, ...] = ()
    memory: int | None = None
    seconds: float = PATIENCE


ANYWHERE = Reach()


def missing() -> ProjectError:
    """Say that there is no git."""
    text = "git is not installed; treadle needs git 2.38 or newer"
    return ProjectError(text, code="git_missing", fix=["treadle doctor"])


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
    around = place.get("GIT_DIR", "").rpartition("/")[0]
    known = (place.get("GIT_WORK_TREE"), around, None if place else _checkout_here())
    own = apart(os.environ, *(path for path in known if path))
    return own | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "PYTHONSAFEPATH": "1"}


def apart(env: Mapping[str, str], *folders: str) -> dict[str, str]:
    """Return the variables of a program that no sandbox holds and no repository may lead astray."""
    kept = {name: value for name, value in env.items() if not _steers(name)}
    return kept | {"PATH": _outside(env.get("PATH", os.defpath), folders)}


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

    `lock` is a lock file that only treadle takes, and that of a private index is known: if it is
    still there when git has failed, a killed git left it; what is left of that git is ended and
    the lock cleared. Git that somebody kills while it works with such an index is started again.
    """
    index = place.get("GIT_INDEX_FILE")
    lock = Path(f"{index}.lock") if index else lock
    mark = mark_of(lock) if lock else f"git-{os.urandom(8).hex()}"
    env = {**environment(place), **place, sweep.MARKER: mark}
    argv = ("git", "-C", str(cwd), *switches(config), *args)
    if reach.memory:
        argv = (*_LIMITED, str(reach.memory >> 10), *argv)
    job = GitCall(argv, env, stdin, reach.writable, reach.seconds)
    done = _start(job, args, reach.runner)
    is_killed = index and done.returncode == -SIGKILL
    if lock and done.returncode and (is_killed or os.path.lexists(lock)):
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


def around(root: Path) -> tuple[dict[str, str], int]:
    """Return what points git at the work tree around a folder, and how long its name is there."""
    tree = find_work_tree(root)
    top = str(tree.top if tree else root)
    return {"GIT_WORK_TREE": top}, len(f"{root}/".removeprefix(f"{top}/"))


def objects(
    place: Mapping[str, str], asked: Sequence[str], cwd: Path = Path("/")
) -> Iterator[tuple[bytes, bytes]]:
    """Yield type and content of each object by its id or name; a missing one has no type."""
    output, at = cat_file("--batch", place, asked, cwd) if asked else b"", 0
    for _ in asked:
        end = output.index(b"\n", at)
        words, at = output[at:end].rsplit(b" ", 2), end + 1
        if len(words) == 3 and words[2].isdigit():
            size = int(words[2])
            yield words[1], output[at : at + size]
            at += size + 1
        else:
            yield b"", b""


def cat_file(
    option: str, place: Mapping[str, str], asked: Iterable[str], cwd: Path = Path("/")
) -> bytes:
    """Ask git about objects by id or name, about all with one process."""
    lines = os.fsencode("".join(f"{name}\n" for name in asked))
    return out(["cat-file", option], place, stdin=lines, cwd=cwd)


def walk_special(root: Path, *, opens: bool = False) -> Iterator[str]:
    """Yield the paths below a work tree that git must not look at, and "" after each folder.

    Only names and types are read. If asked, folders are first opened up to their owner, who may
    have lost that right; one whose path is too long to be named is none that git could enter.
    """
    pending = [""]
    while pending:
        folder = pending.pop()
        for item in _entries(f"{root}/{folder}", opens=opens):
            path = folder + item.name
            if item.is_file(follow_symlinks=False):
                if item.name in _READ and _is_endless(item.path):
                    yield path
            elif item.is_dir(follow_symlinks=False):
                if path != ".git":
                    pending.append(f"{path}/")
            elif not item.is_symlink() or (item.name in _READ and _is_endless(item.path)):
                yield path
        yield ""


def failure(args: Sequence[str], done: Captured) -> GitError:
    """Say what git said, and what helps."""
    name, stderr = verb(args), done.stderr.decode(errors="replace")
    if done.returncode < 0:
        message = f"git {name} was ended by signal {-done.returncode}"
        return GitError(message, code="git_killed", fix=["df -h", "free -h"])
    text = said(done) or f"exit code {done.returncode}"
    details: dict[str, object] = {"stderr": stderr[-4000:].strip()}
    fix = next((fix for sign, fix in _ADVICE.items() if sign in stderr), ("treadle doctor",))
    code = "disk_full" if fix == _FULL else None
    return GitError(f"git {name}: {text}", code=code, fix=fix, details=details)


def said(done: Captured) -> str:
    """Return the line in which git named the cause."""
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines()]
    lines = [line for line in lines if line and _SILENT not in line]
    causes = [line for line in lines if line.startswith(_SAYS)] or lines
    return causes[-1].removeprefix(_SAYS[0]).removeprefix(_SAYS[1]) if causes else ""


def _watch(root: Path) -> Callable[[], None]:
    """Return what to call now and then while git works in a checkout of the user's.

    To look at every file beforehand would take longer than most calls of git: what it waits for
    is looked for while it does, a part in each call, and then refused. Nothing is removed.
    """
    found, begin = walk_special(root), time.monotonic() + _SLOW

    def look() -> None:
        until = time.monotonic() + _GLANCE
        for name in found if until > begin else ():
            if name.rpartition("/")[2] in _READ:
                path = f"{root}/{name}"
                text = f"{path} cannot be read to its end, and git waits for it"
                raise BlockedError(text, code="special_file", fix=[f"rm {argument(path)}"])
            if time.monotonic() > until:
                return

    return look


def _steers(name: str) -> bool:
    if name.startswith("GIT_"):
        return not name.startswith(_KEPT)
    return name.startswith(_STEERING) or name in _STEERING_NAMES


def _checkout_here() -> str | None:
    """Return the checkout in which the user stands: at first git is asked where to work."""
    with suppress(OSError):
        tree = find_work_tree(Path(treadle.here or Path.cwd()).resolve())
        return str(tree.top) if tree else None
    return None


@lru_cache(maxsize=64)
def _outside(path: str, folders: tuple[str, ...]) -> str:
    """Return a PATH without entries that lie in one of the folders, or depend on where one is."""
    inside, found = tuple(f"{folder}/" for folder in folders), path.split(":")
    kept = (
        it for it in found if it[:1] == "/" and not f"{os.path.realpath(it)}/".startswith(inside)
    )
    return ":".join(kept) or os.defpath


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


def _entries(folder: str, *, opens: bool) -> list[os.DirEntry[str]]:
    with suppress(OSError):
        if opens and (mode := os.stat(folder).st_mode) & 0o700 != 0o700:  # noqa: PTH116  # as below
            Path(folder).chmod(stat.S_IMODE(mode) | 0o700)
        with os.scandir(folder) as found:
            return list(found)
    return []


def _is_endless(path: str) -> bool:
    """Tell whether a file of settings, or what it links to, is none that can be read to its end."""
    try:
        state = os.stat(path)  # noqa: PTH116  # in the inner loop of a walk
    except OSError:
        return False
    return not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_BYTES
