"""Make, read, move and delete branches, each in one durable instant."""

import contextlib
import re
from pathlib import Path

from treadle.errors import GitError, argument
from treadle.files import sync
from treadle.git import call
from treadle.git.repo import Repo, read_ref
from treadle.proc.capture import Captured

OWN_PREFIX = "treadle/"
_IN_THE_WAY = re.compile(r"'refs/heads/([^']+)' exists; cannot create")


def resolve(repo: Repo, name: str) -> str | None:
    """Return the commit a branch points at, or None if there is no such branch."""
    return read_ref(repo, f"refs/heads/{name}")


def create(repo: Repo, name: str, commit: str) -> None:
    """Make a branch that must not exist yet."""
    args = _args("begin", name, commit, repo.null_id)
    done = _update(repo, name, args)
    if done.returncode == 0:
        return
    found = resolve(repo, name)
    if found:
        raise GitError(
            f"the branch {name} exists already, at {found[:12]}",
            code="branch_exists",
            fix=[f"git branch -m {name} {name}-old"],
        )
    blocker = _IN_THE_WAY.search(done.stderr.decode(errors="replace"))
    if blocker:
        raise GitError(
            f"the branch {blocker[1]} stands in the way of {name}: git cannot have both",
            code="branch_in_the_way",
            fix=[f"git branch -m {blocker[1]} {blocker[1].replace('/', '-')}-old"],
        )
    raise call.failure(args, done)


def move(repo: Repo, name: str, new: str, old: str) -> bool:
    """Move a branch from `old` to `new`; tell whether it is at `new` now."""
    work_tree = checked_out(repo, name)
    if work_tree:
        raise GitError(
            f"the branch {name} is checked out in {work_tree}; it would change under your hands",
            code="branch_checked_out",
            fix=[f"git -C {argument(str(work_tree))} switch --detach"],
        )
    return swap(repo, name, new, old, "step")


def swap(repo: Repo, name: str, new: str, old: str, why: str) -> bool:
    """Move a branch that is checked out nowhere."""
    args = _args(why, name, new, old)
    done = _update(repo, name, args)
    if done.returncode == 0:
        return True
    found = resolve(repo, name)
    if found == old:
        raise call.failure(args, done)
    return found == new


def delete(repo: Repo, name: str, old: str) -> bool:
    """Delete a branch that points at `old`; tell whether it is gone."""
    args = ["update-ref", "--no-deref", "-d", f"refs/heads/{name}", old]
    return _update(repo, name, args).returncode == 0 or resolve(repo, name) is None


def checked_out(repo: Repo, name: str) -> Path | None:
    """Return the work tree in which a branch is checked out."""
    heads = {repo.common_dir / "HEAD": repo.common_dir}
    for folder in (repo.common_dir / "worktrees").glob("*"):
        heads[folder / "HEAD"] = folder
    for file, folder in heads.items():
        with contextlib.suppress(OSError, ValueError):
            if file.read_text().strip() == f"ref: refs/heads/{name}":
                return _work_tree(repo, folder)
    return None


def _work_tree(repo: Repo, folder: Path) -> Path:
    pointer = folder / "gitdir"
    if pointer.is_file():
        return Path(pointer.read_text().removesuffix("\n")).parent
    return repo.root if folder == repo.git_dir else folder.parent


def _args(why: str, name: str, new: str, old: str) -> list[str]:
    return ["update-ref", "-m", f"treadle: {why}", "--no-deref", f"refs/heads/{name}", new, old]


def _update(repo: Repo, name: str, args: list[str]) -> Captured:
    """Run update-ref, durably; the lock of a branch that only treadle moves can be cleared."""
    lock = repo.common_dir / "refs" / "heads" / f"{name}.lock"
    done = call.run(args, repo.place, lock=lock if name.startswith(OWN_PREFIX) else None)
    if done.returncode == 0:
        _sync(repo, name)
    return done


def _sync(repo: Repo, name: str) -> None:
    """Make the new name survive a power loss; git syncs the file, not its folder."""
    heads = repo.common_dir / "refs" / "heads"
    folders = [heads, *list((heads / name).parents)[: name.count("/")]]
    found = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
    if found:
        sync.sync_all(found)
