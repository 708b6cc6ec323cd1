"""Hold git in where it works among an agent's files: the sandbox, and what lies there."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from signal import SIGKILL
from typing import NamedTuple

from treadle.errors import GitError, InterruptedRun, NotFoundError, TreadleError, stop_code
from treadle.files import beneath, walk
from treadle.git.call import GitCall, walk_special
from treadle.proc import helper
from treadle.proc.command import Command, Ended, Jail, Limits
from treadle.proc.helper import Captured
from treadle.proc.keeper import Keeper

_OUTPUT = 1 << 30
_SAID = 1 << 20  # of what git and its filters say, the end


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
            return Captured(_code(ended), stdout.read_bytes(), walk.tail(stderr, _SAID).encode())
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


def clear_special(root: Path) -> tuple[str, ...]:
    """Remove what git must not look at, and return it; it holds nothing once nobody uses it."""
    found = tuple(sorted(filter(None, walk_special(root, opens=True))))
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
            code = stop_code(ended.detail)
            raise InterruptedRun(f"git was ended: {ended.detail}", exit_code=code)
        case "lost" if ended.vouched:
            return -SIGKILL
        case "missing":
            raise NotFoundError(ended.detail, code="program_missing")
    raise GitError(f"git could not work in the workspace: {ended.detail}", fix=["treadle doctor"])
