"""Read, make and move branches, treadle's own and the user's, and see what is in the way."""

import contextlib
import os
import re
import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.errors import BlockedError, GitError, argument
from treadle.files import sync
from treadle.git import call, scratch, trees, workspace
from treadle.git.call import cat_file
from treadle.git.repo import Repo, operation_in_progress, read_ref
from treadle.ids import OWN_PREFIX
from treadle.proc.helper import Captured

_IN_THE_WAY = re.compile(r"'refs/heads/([^']+)' exists; cannot create")
_MERGE = (
    *("merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-squash"),
    *("--commit", "--no-edit", "--no-stat", "-q"),
)
_LOCK_PATIENCE = 2.0
LOCKED = "git_locked"
_ADVICE = {
    "merge": "git merge --abort",
    "rebase": "git rebase --abort",
    "cherry-pick": "git cherry-pick --abort",
    "revert": "git revert --abort",
    "bisect": "git bisect reset",
}
# What git writes into its log when somebody commits what lies in the work tree. A merge, a pull,
# a cherry-pick, a patch from a mail, a rebase and a checkout bring what others may have made.
MADE_HERE = ("commit: ", "commit (amend): ", "commit (initial): ")
_MOST = 2_000
# What the file HEAD says where references lie in tables.
_REFTABLE_HEAD = "refs/heads/.invalid"
_ADD = ("update-index", "--add", "--replace", "-z", "--stdin")


class Obstacles(NamedTuple):
    """Files that differ from the commit or are unknown to git, and would be overwritten."""

    staged: tuple[str, ...] = ()
    unstaged: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class Arrivals:
    """How each content of some files came into this clone, as far as its logs remember."""

    def __init__(self, repo: Repo, names: Iterable[str], actions: tuple[str, ...]) -> None:
        """Read the logs; `actions` are the beginnings of messages that say who moved a branch."""
        moves = list(dict.fromkeys(_moves(repo, actions)))[-_MOST:]
        self._made: dict[str, dict[str, set[str | None]]] = {
            name: {} for name in names if "\n" not in name
        }
        commits = {commit for move in moves for commit in move}
        found = _ids(repo, [f"{commit}:{name}" for commit in commits for name in ("", *self._made)])
        for old, new in moves:
            # What is gone from the object store says nothing about what was in it.
            if old.strip("0") and not found[f"{old}:"]:
                continue
            for name, made in self._made.items():
                before, after = found[f"{old}:{name}"], found[f"{new}:{name}"]
                if after and after != before:
                    made.setdefault(after, set()).add(before)

    def is_own(self, name: str, blob: str, known: Collection[str]) -> bool:
        """Tell whether a content was made here, step by step, from nothing or from a known one."""
        made = self._made.get(name, {})
        waiting, seen = [blob], set[str]()
        while waiting:
            here = waiting.pop()
            if here in known or None in made.get(here, ()):
                return True
            seen.add(here)
            waiting += [old for old in made.get(here, ()) if old is not None and old not in seen]
        return False


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
    if holders := work_trees(repo, name):
        raise GitError(
            f"the branch {name} is checked out in {holders[0]}; it would change under your hands",
            code="branch_checked_out",
            fix=[f"git -C {argument(str(holders[0]))} switch --detach"],
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


def hold(repo: Repo, name: str, commit: str | None) -> None:
    """Keep a commit that is on no branch from being collected; None lets it go."""
    ref = f"refs/treadle/held/{name}"
    call.out(["update-ref", ref, commit] if commit else ["update-ref", "-d", ref], repo.place)


def work_trees(repo: Repo, name: str) -> list[Path]:
    """Return where a branch is checked out; where there is one work tree its HEAD tells."""
    ref = f"refs/heads/{name}"
    head = (repo.common_dir / "HEAD").read_text(errors="replace").split()
    is_elsewhere = head[:1] == ["ref:"] and head[-1] not in (ref, _REFTABLE_HEAD)
    if is_elsewhere and not (repo.common_dir / "worktrees").exists():
        return []
    listing = os.fsdecode(call.out(["worktree", "list", "--porcelain", "-z"], repo.place))
    lines = [block.split("\0") for block in listing.split("\0\0")]
    blocks = [dict(line.partition(" ")[::2] for line in block) for block in lines]
    if repo.git_dir == repo.common_dir:
        # Git guesses the main work tree from its .git, which may lie elsewhere (a submodule's).
        blocks[0]["worktree"] = str(repo.root)
    return [Path(block["worktree"]) for block in blocks if block.get("branch") == ref]


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
    holders = work_trees(repo, name)
    others = [root for root in holders if not _same(root, repo.root)]
    if others:
        where = shlex.quote(str(others[0]))
        raise BlockedError(
            f"the branch {name} is checked out in {others[0]}; it would change under your hands",
            code="checked_out_elsewhere",
            fix=[f"git -C {where} switch --detach" if others[0].exists() else "git worktree prune"],
            details={"work_tree": str(others[0]), "branch": name},
        )
    return bool(holders)


def advance(repo: Repo, name: str, new: str, old: str, why: str) -> None:
    """Move a branch from `old` to `new`, with the files where it is checked out."""
    if is_checked_out(repo, name):
        _fast_forward(repo, name, new, why)
    else:
        swap(repo, name, new, old, why)
    found = resolve(repo, name)
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
    deadline = time.monotonic() + _LOCK_PATIENCE
    while lock := _lock(repo, name):
        if time.monotonic() > deadline:
            raise locked(lock)
        time.sleep(0.02)


def contains(repo: Repo, commit: str, other: str) -> bool:
    """Tell whether `other` is `commit` or lies in its history."""
    if commit == other:
        return True
    args = ["merge-base", "--is-ancestor", other, commit]
    done = call.run(args, repo.place)
    if done.returncode not in (0, 1):
        raise call.failure(args, done)
    return done.returncode == 0


def find_obstacles(root: Path, place: Mapping[str, str], old: str, new: str) -> Obstacles:
    """Return what stands in the way of the checkout at `root` going from `old` to `new`."""
    changes = trees.changed_files(place, old, new)
    touched = frozenset(change.path for change in changes)
    added = {change.path for change in changes if not change.old}
    folders = {folder for path in touched for folder in trees.above(path)}
    status = call.fields([*call.STATUS, "--ignore-submodules=all"], place)
    # One letter for the index, one for the file.
    near = [(*line[:2], line[3:]) for line in status if _meets(line[3:], touched, folders)]
    staged = {path for index, _, path in near if index not in " ?"}
    if staged:
        staged &= _differing(place, new)
    unstaged = {path for _, file, path in near if file not in " ?"} - staged
    # A path can be both: staged as deleted, and there as a file that git does not know.
    unknown = {path for _, file, path in near if file == "?"} - staged
    known = {path for _, _, path in near}
    unknown |= {
        path
        for path in added - known
        if touched.isdisjoint(trees.above(path)) and _is_taken(root, path, touched | known)
    }
    return Obstacles(tuple(sorted(staged)), tuple(sorted(unstaged)), tuple(sorted(unknown)))


def stage_written(
    repo: Repo, folder: Path, name: str, old: str, new: str, kept: Collection[str | None] = ()
) -> None:
    """Let git know what an interrupted move of the branch `name` has already written.

    Nothing of the user's but what is `kept` lay there when the move began. A file that is as in
    `new` is staged, so that git finds it right; the beginning of such a file comes again whole.
    """
    require_unlocked(repo, name)
    names = {change.path for change in trees.changed_files(repo.place, old, new)}.difference(kept)
    written = [path for path in names if (file := repo.root / path).is_symlink() or file.is_file()]
    if not written:
        return
    place = scratch.make(repo, folder)
    try:
        workspace.copy_index(repo.git_dir / "index", place.index)
        scratch.out(place, *_ADD, stdin=_joined(written))
        differing = _differing(place.place, new)
        same = [path for path in written if path not in differing]
        for path in differing.intersection(written):
            _drop_beginning(repo, path, new)
    finally:
        scratch.drop(place)
    if same:
        call.out(_ADD, repo.place, stdin=_joined(same))


def _moves(repo: Repo, actions: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield from which commit to which what is checked out here, and each branch, was moved."""
    branches = repo.common_dir / "logs" / "refs" / "heads"
    for path in (repo.git_dir / "logs" / "HEAD", *sorted(branches.rglob("*"))):
        for line in path.read_bytes().splitlines() if path.is_file() else ():
            head, _, message = os.fsdecode(line).partition("\t")
            words = head.split(" ", 2)
            if len(words) == 3 and message.startswith(actions):
                yield words[0], words[1]


def _ids(repo: Repo, asked: list[str]) -> dict[str, str | None]:
    """Return the ids of files and folders; None for one that is not there."""
    place = repo.place | {"GIT_NO_LAZY_FETCH": "1"}
    option = "--batch-check=%(objecttype) %(objectname)"
    lines = cat_file(option, place, asked).split(b"\n") if asked else []
    found: dict[str, str | None] = {}
    for name, line in zip(asked, lines, strict=False):
        kind, _, id_ = line.partition(b" ")
        found[name] = id_.decode() if kind in (b"blob", b"tree") else None
    return found


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


def _same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return one.samefile(other)
    return one == other


def _fast_forward(repo: Repo, name: str, new: str, why: str) -> None:
    require_unlocked(repo, name)
    args = (*_MERGE, new)
    place = repo.place | {"GIT_REFLOG_ACTION": f"treadle: {why}"}
    done = call.run(args, place, cwd=repo.root)
    if done.returncode:
        if lock := _lock(repo, name):
            raise locked(lock)
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


def locked(lock: Path) -> BlockedError:
    """Say that another git is at work, or was."""
    return BlockedError(
        f"{lock} is there: another git works in your checkout, or one was killed",
        code=LOCKED,
        fix=["git status", f"rm -f {shlex.quote(str(lock))}"],
        details={"lock": str(lock)},
    )


def _meets(path: str, touched: frozenset[str], folders: set[str]) -> bool:
    """Tell whether a file is touched, or would have to become a folder, or the reverse."""
    return path in touched or path in folders or not touched.isdisjoint(trees.above(path))


def _is_taken(root: Path, path: str, seen: frozenset[str]) -> bool:
    """Tell whether a new file's name is taken, as only ignored files can do unnoticed."""
    target = root / path
    if target.is_dir() and not target.is_symlink():
        inner = [item for item in target.rglob("*") if item.is_symlink() or not item.is_dir()]
        return any(str(item.relative_to(root)) not in seen for item in inner)
    if os.path.lexists(target):
        return True
    above = [root / name for name in trees.above(path) if name not in seen]
    return any(parent.is_symlink() or parent.is_file() for parent in above)


def _differing(place: Mapping[str, str], commit: str) -> set[str]:
    """Return what is staged unlike in `commit`; git lets the same content stay."""
    args = ["diff-index", "--cached", "-z", "--name-only", "--no-renames", commit]
    return set(call.fields(args, place))


def _joined(paths: list[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _drop_beginning(repo: Repo, path: str, commit: str) -> None:
    file = repo.root / path
    done = call.run(["cat-file", "--filters", f"{commit}:{path}"], repo.place)
    if done.returncode or file.is_symlink():
        return
    data = file.read_bytes()
    if len(data) < len(done.stdout) and done.stdout.startswith(data):
        file.unlink()
