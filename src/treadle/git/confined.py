"""Hold git in where it works among an agent's files: the sandbox, and what lies there."""

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.errors import (
    BlockedError,
    ExitCode,
    GitError,
    InterruptedRun,
    NotFoundError,
    TreadleError,
    argument,
)
from treadle.files import beneath
from treadle.git.call import GitCall
from treadle.proc import helper
from treadle.proc.command import Command, Ended, Jail, Limits
from treadle.proc.helper import Captured
from treadle.proc.keeper import Keeper

_OUTPUT = 1 << 30
_SAID = 1 << 20  # of what git and its filters say, the end
# Git reads these by itself wherever they lie, some of them through a link.
_READ = frozenset((".gitattributes", ".gitignore", ".gitmodules", ".mailmap"))
_MAX_BYTES = 16 << 20


class Confined(NamedTuple):
    """Start git through the keeper, so that nothing a filter started is alive afterwards.

    `folder` is for what git reads and says, and none that it may write. `jail` makes the jail in
    which git can write what it must, `environment` chooses what git may know of the user's.
    """

    keeper: Keeper
    folder: Path
    jail: Callable[[tuple[Path, ...]], Jail | None]
    environment: Callable[[Mapping[str, str]], Mapping[str, str]]
    interrupted: Callable[[], str | None] = lambda: None

    def __call__(self, job: GitCall) -> Captured:
        """Run one call of git to its end."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stdin, stdout, stderr = (self.folder / name for name in ("in", "out", "err"))
        try:
            if job.stdin is not None:
                stdin.write_bytes(job.stdin)
            command = Command(
                argv=job.argv,
                cwd=Path("/"),
                env=self.environment(job.env),
                stdin=None if job.stdin is None else stdin,
                stdout=stdout,
                stderr=stderr,
                limits=Limits(wall=job.seconds, output_bytes=_OUTPUT, grace=0),
                jail=self.jail(job.writable),
            )
            ended = self.keeper.run(command, should_stop=self._stopper())
            return Captured(_code(ended), stdout.read_bytes(), _end(stderr))
        finally:
            for path in (stdin, stdout, stderr):
                path.unlink(missing_ok=True)

    def _stopper(self) -> Callable[[], str | None]:
        begun = time.monotonic()
        return lambda: self.interrupted() if helper.is_stop_over(begun) else None


def require_plain(folder: Path) -> None:
    """Refuse a folder in which anything but files and folders lies; the whole folder goes."""
    pending = [os.fspath(folder)]
    while pending:
        with os.scandir(pending.pop()) as found:
            for item in found:
                if item.is_dir(follow_symlinks=False):
                    pending.append(item.path)
                elif not item.is_file(follow_symlinks=False):
                    beneath.remove_tree(folder)
                    raise trespass(item.name)


def trespass(what: str) -> GitError:
    """Say that a filter did more than filter."""
    return GitError(
        f"a content filter left {what} among what git made; nothing of it is taken",
        code="filter_trespass",
        fix=["git config --get-regexp ^filter"],
    )


def require_readable(root: Path) -> None:
    """Refuse a checkout of the user's in which git would wait for a file of settings."""
    found = next((path for path in find_special(root) if path.rpartition("/")[2] in _READ), None)
    if found:
        raise BlockedError(
            f"{found} cannot be read to its end, and git would wait for it",
            code="special_file",
            fix=[f"rm {argument(found)}"],
        )


def find_special(root: Path, *, opens: bool = False) -> Iterator[str]:
    """Yield the paths below a work tree, relative to it, that git must not look at.

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


def clear_special(root: Path) -> tuple[str, ...]:
    """Remove what git must not look at, and return it; it holds nothing once nobody uses it."""
    found = tuple(sorted(find_special(root, opens=True)))
    for path in found:
        beneath.remove_tree(root / path)
    return found


def _code(ended: Ended) -> int:
    """Return the exit code as that of a helper; raise if git did not come to its own end."""
    match ended.reason:
        case "exit" | "signal":
            return -ended.signal if ended.signal else ended.exit_code or 0
        case "timeout":
            raise TreadleError(ended.detail, code="helper_timeout")
        case "stopped":
            is_typed = "SIGINT" in ended.detail
            code = ExitCode.INTERRUPTED if is_typed else ExitCode.TERMINATED
            raise InterruptedRun(f"git was ended: {ended.detail}", exit_code=code)
        case "missing":
            raise NotFoundError(ended.detail, code="program_missing")
    raise GitError(f"git could not work in the workspace: {ended.detail}", fix=["treadle doctor"])


def _end(path: Path) -> bytes:
    with path.open("rb") as handle:
        handle.seek(max(path.stat().st_size - _SAID, 0))
        return handle.read()


def _entries(folder: str, *, opens: bool) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError):
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
