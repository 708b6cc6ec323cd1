"""Bring the branches of a mission's approved tasks together, and put away what they leave."""

import contextlib
import json
from pathlib import Path
from typing import NamedTuple

from treadle.engine.run.run import reach
from treadle.errors import BlockedError, FormatError
from treadle.files import atomic
from treadle.git import call, refs
from treadle.git import repo as git
from treadle.git.repo import Head, Repo
from treadle.layout import find_work_tree
from treadle.missions import adopt, observed, state, worktree
from treadle.missions import mission as missions
from treadle.missions.state import Halt, State
from treadle.missions.worktree import TaskTree, tree_of
from treadle.project.context import Context, require_ready
from treadle.store.store import Reader, Store
from treadle.tasks import lanes
from treadle.text import name_some

_MENDED = ".mend"


class KeptTree(NamedTuple):
    """A worktree that stays, and why."""

    path: str
    reason: str
    branch: str


class Tidied(NamedTuple):
    """Which worktrees were removed with their branches, and which stay."""

    removed: tuple[str, ...]
    kept: tuple[KeptTree, ...]


class MergedTasks(NamedTuple):
    """What came together on which branch; which tasks are not that far; what was put away."""

    branch: str
    commit: str
    merged: tuple[str, ...]
    left: dict[str, str]
    tidied: Tidied


def merge(project: Context, found: State, store: Store) -> MergedTasks:
    """Move the checked-out branch to a commit that holds every approved task and passes.

    The branch moves once, when all of it is known to be good; until then nothing is changed.
    """
    repo, branch = project.repo, _target(project, found)
    with observed.alone(project.layout, f"merge-{found.mission.slug}"):
        _finish(project, found)
        adopt.require_committed(project.layout.root)
        tip = refs.resolve(repo, branch) or ""
        trees = worktree.to_merge(repo, found, tip)
        new = worktree.combine(project, tip, trees)
        if new != tip:
            _require_good(project, found, store, Head(new, branch))
            _move(project, found, branch, tip, new)
        board = found.board
        open_ = [id_ for id_ in board.names if board.lane(id_) not in ("approved", *lanes.FINAL)]
        left = {found.mission.task_id(id_): board.lane(id_) for id_ in open_}
        merged = tuple(tree.task_id for tree in trees)
        return MergedTasks(branch, new, merged, left, tidy(project, found))


def tidy(
    project: Context, found: State, *, dry_run: bool = False, every_lane: bool = False
) -> Tidied:
    """Remove clean worktrees of tasks that are merged, with their branches; nothing else goes."""
    removed, kept = list[str](), list[KeptTree]()
    tip = worktree.home(project.repo, found.layout)[1]
    board = found.board
    for id_ in board.names if every_lane else board.in_lane("approved", *lanes.FINAL):
        tree = tree_of(project.repo, found.layout, found.mission, id_)
        if tree.commit is None and not tree.path.is_dir():
            continue
        why = _why_kept(project.repo, tree, tip) or (
            None if dry_run else _remove(project.repo, tree)
        )
        if why:
            kept.append(KeptTree(str(tree.path), why, tree.branch))
        else:
            removed.append(tree.task_id)
    return Tidied(tuple(removed), tuple(kept))


def tidy_all(project: Context, store: Reader, *, dry_run: bool) -> Tidied:
    """Do the same for all missions; a broken one keeps what it has."""
    removed, kept = list[str](), list[KeptTree]()
    for mission in missions.find_all(project.layout) if project.layout.worktrees.is_dir() else ():
        with contextlib.suppress(FormatError):
            found = state.read(project.layout, store, mission, project.now())
            done = tidy(project, found, dry_run=dry_run)
            removed += done.removed
            kept += done.kept
    return Tidied(tuple(removed), tuple(kept))


def _target(project: Context, found: State) -> str:
    """Return the branch that is merged into: the one that is checked out, outside of a task's."""
    away = worktree.go_home(project.repo, found.layout)
    if away:
        raise BlockedError(
            "this is the worktree of one task; tasks are merged where the mission's branch is",
            code="task_worktree",
            fix=[f"{away}{worktree.merge_command(found.mission)}"],
        )
    require_ready(project)
    branch = git.head(project.repo).branch
    if branch is None:
        text = "no branch is checked out here, so there is none to merge the tasks into"
        raise BlockedError(text, code="no_branch", fix=["git switch -", "git branch"])
    return branch


def _require_good(project: Context, found: State, store: Store, head: Head) -> None:
    """Run the commands of all that is merged on the merged commit, before any branch moves."""
    seen = observed.look(project, found, store, found.at("accept"), head)
    if isinstance(seen, Halt):
        fix = [*seen.unblock[:-1], worktree.merge_command(found.mission)]
        text = f"nothing was merged. Together, {seen.reason}"
        raise BlockedError(text, code=seen.reason_code, fix=fix)


def _move(project: Context, found: State, branch: str, old: str, new: str) -> None:
    """Move the branch with its files; a kill in between leaves word of what was to be moved."""
    word = {"branch": branch, "old": old, "new": new}
    atomic.write(_intent(project, found), json.dumps(word).encode())
    reach("merge_intended")
    _advance(project, found, branch, old, new)
    reach("merge_moved")
    _intent(project, found).unlink()


def _finish(project: Context, found: State) -> None:
    """Finish a merge that a kill cut off, unless its branch went elsewhere since."""
    intent, repo = _intent(project, found), project.repo
    if not intent.exists():
        return
    word = json.loads(intent.read_bytes())
    branch, old, new = word["branch"], word["old"], word["new"]
    if refs.resolve(repo, branch) == old:
        if refs.is_checked_out(repo, branch):
            refs.stage_written(repo, intent.with_name(_MENDED), branch, old, new)
        _advance(project, found, branch, old, new)
    intent.unlink()


def _advance(project: Context, found: State, branch: str, old: str, new: str) -> None:
    try:
        refs.advance(project.repo, branch, new, old, f"merge {found.mission.slug}")
    except BlockedError as error:
        if error.code != refs.LOCKED:  # behind a lock, git may have written files
            _intent(project, found).unlink(missing_ok=True)
        error.fix = (*error.fix, worktree.merge_command(found.mission))
        raise


def _intent(project: Context, found: State) -> Path:
    return project.layout.worktrees / f"{found.mission.slug}.merge"


def _why_kept(repo: Repo, tree: TaskTree, tip: str) -> str | None:
    """Return what would be lost with a task's worktree and branch."""
    if tree.commit and not refs.contains(repo, tip, tree.commit):
        return f"{tree.branch} has commits that are not merged"
    if not tree.path.is_dir():
        return None
    known = find_work_tree(tree.path)
    if known is None or known.top != tree.path or known.common_dir != repo.common_dir:
        return "it is not a worktree of this repository"
    try:
        dirty = adopt.dirty_files(tree.path)
    except BlockedError as error:
        return error.message
    if dirty:
        return f"it has uncommitted files: {name_some(dirty)}"
    head = git.head(git.find(tree.path)).commit
    return None if head and refs.contains(repo, tip, head) else "its HEAD is not merged"


def _remove(repo: Repo, tree: TaskTree) -> str | None:
    """Remove a worktree and its branch; return why git would not."""
    if tree.path.is_dir():
        done = call.run(["worktree", "remove", str(tree.path)], repo.place)
        if done.returncode:
            return call.said(done)
    call.out(["worktree", "prune"], repo.place)
    reach("task_tree_removed")
    if tree.commit and not refs.work_trees(repo, tree.branch):
        refs.delete(repo, tree.branch, tree.commit)
    tree.base.unlink(missing_ok=True)
    return None
