"""Move a branch of the user forward, without forcing, stashing or overwriting anything."""

import contextlib
import os
import shlex
import time
from pathlib import Path
from typing import NamedTuple

from treadle.errors import BlockedError
from treadle.git import branch, call
from treadle.git.repo import Repo, operation_in_progress

_MERGE = (
    *("merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-squash"),
    *("--commit", "--no-edit", "--no-stat", "-q"),
)
_PATIENCE = 2.0
LOCKED = "git_locked"
_ADVICE = {
    "merge": "git merge --abort",
    "rebase": "git rebase --abort",
    "cherry-pick": "git cherry-pick --abort",
    "revert": "git revert --abort",
    "bisect": "git bisect reset",
}


class Place(NamedTuple):
    """One checkout of the repository; `branch` is None when detached."""

    root: Path
    branch: str | None


def require_quiet(repo: Repo, name: str) -> None:
    """Refuse while the user is in the middle of something that a moved branch would disturb."""
    found = operation_in_progress(repo) or _borrowed(repo, name)
    if found:
        raise BlockedError(
            f"a {found} is in progress; end it first",
            code="operation_in_progress",
            fix=["git status", _ADVICE[found]],
        )


def is_checked_out(repo: Repo, name: str) -> bool:
    """Tell whether a branch is checked out here; refuse if it is somewhere else."""
    holders = [place.root for place in _places(repo) if place.branch == name]
    others = [root for root in holders if not _same(root, repo.root)]
    if others:
        where = shlex.quote(str(others[0]))
        raise BlockedError(
            f"the branch {name} is checked out in {others[0]}; it would change under your hands",
            code="checked_out_elsewhere",
            fix=[f"git -C {where} switch --detach" if others[0].exists() else "git worktree prune"],
            details={"work_tree": str(others[0])},
        )
    return bool(holders)


def move(repo: Repo, name: str, new: str, old: str, why: str) -> None:
    """Move a branch from `old` to `new`, with the files where it is checked out."""
    if is_checked_out(repo, name):
        _fast_forward(repo, name, new, why)
    else:
        branch.swap(repo, name, new, old, why)
    found = branch.resolve(repo, name)
    if found != new:
        raise BlockedError(
            f"the branch {name} moved meanwhile; it stands on {(found or 'nothing')[:12]} now",
            code="branch_moved",
            fix=[f"git log -3 {shlex.quote(name)}"],
        )


def require_unlocked(repo: Repo, name: str) -> None:
    """Give a git that still works in the checkout a moment to finish; its locks are not ours.

    Git itself would write all files before it noticed that it cannot move the branch.
    """
    deadline = time.monotonic() + _PATIENCE
    while lock := _lock(repo, name):
        if time.monotonic() > deadline:
            raise _locked(lock)
        time.sleep(0.02)


def _fast_forward(repo: Repo, name: str, new: str, why: str) -> None:
    require_unlocked(repo, name)
    args = (*_MERGE, new)
    place = repo.place | {"GIT_REFLOG_ACTION": f"treadle: {why}"}
    done = call.run(args, place, cwd=repo.root)
    if done.returncode:
        if lock := _lock(repo, name):
            raise _locked(lock)
        failure = call.failure(args, done)
        raise BlockedError(
            f"git would not move your checkout: {failure.message}",
            code="git_refused",
            fix=["git status"],
            details=failure.details,
        )


def _lock(repo: Repo, name: str) -> Path | None:
    own = [repo.git_dir / f"{file}.lock" for file in ("index", "HEAD", "ORIG_HEAD")]
    locks = [*own, repo.common_dir / "refs" / "heads" / f"{name}.lock"]
    return next((path for path in locks if os.path.lexists(path)), None)


def _locked(lock: Path) -> BlockedError:
    return BlockedError(
        f"{lock} is there: another git works in your checkout, or one was killed",
        code=LOCKED,
        fix=["git status", f"rm -f {shlex.quote(str(lock))}"],
        details={"lock": str(lock)},
    )


def _places(repo: Repo) -> list[Place]:
    listing = os.fsdecode(call.out(["worktree", "list", "--porcelain", "-z"], repo.place))
    found = []
    for block in listing.split("\0\0"):
        fields = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        if "worktree" in fields and "bare" not in fields:
            ref = fields.get("branch", "")
            name = ref.removeprefix("refs/heads/") if ref else None
            found.append(Place(Path(fields["worktree"]), name))
    if repo.git_dir == repo.common_dir:
        # Git guesses the main work tree from its .git, which may lie elsewhere (a submodule's).
        found[0] = found[0]._replace(root=repo.root)
    return found


def _same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return one.samefile(other)
    return one == other


def _borrowed(repo: Repo, name: str) -> str | None:
    """Return what another work tree does with the branch while its own HEAD is detached."""
    for folder in (repo.common_dir, *(repo.common_dir / "worktrees").glob("*")):
        for sign, what in (
            ("rebase-merge/head-name", "rebase"),
            ("rebase-apply/head-name", "rebase"),
            ("BISECT_START", "bisect"),
        ):
            with contextlib.suppress(OSError, ValueError):
                found = (folder / sign).read_text().strip()
                if found.removeprefix("refs/heads/") == name:
                    return what
    return None
