"""A git worktree for each task of a mission, on the task's own branch."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.engine.run.run import reach
from treadle.errors import BlockedError, argument
from treadle.files import atomic
from treadle.git import build, call, refs, scratch, trees
from treadle.git import repo as git
from treadle.git.build import Conflict
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch
from treadle.ids import OWN_PREFIX
from treadle.layout import Layout, find_work_tree
from treadle.missions.mission import Mission
from treadle.missions.prompt import write_prompt
from treadle.missions.state import At, Board, Decision, Halt, NextStep, State
from treadle.project.context import Context
from treadle.store.questions import WorkReader
from treadle.text import name_some

_UNFINISHED = "initializing"  # what git writes down while it makes a worktree


class TaskTree(NamedTuple):
    """Where a task is worked on: its branch, what that stands on, and the folder for it."""

    task_id: str
    branch: str
    commit: str | None
    path: Path

    @property
    def id(self) -> str:
        """Return the task's id within its mission."""
        return self.task_id.rpartition(".")[2]

    @property
    def base(self) -> Path:
        """Return the file that names the branch which the task's own was begun from."""
        return self.path.with_name(f"{self.path.name}.base")


def tree_of(repo: Repo, layout: Layout, mission: Mission, id_: str) -> TaskTree:
    """Return where a task is worked on, whether or not it is there yet."""
    task_id = mission.task_id(id_)
    path = layout.worktrees / task_id
    if not path.with_name(f"{path.name}.base").exists():
        path = _under_another_name(layout, mission, id_) or path
    branch = f"{OWN_PREFIX}{path.name.rpartition('.')[0]}/{id_}"
    return TaskTree(task_id, branch, refs.resolve(repo, branch), path)


def _under_another_name(layout: Layout, mission: Mission, id_: str) -> Path | None:
    """Return where a task was worked on when its mission's folder had another name."""
    for base in sorted(layout.worktrees.glob(f"*.{id_}.base")):
        if base.read_text().split("\n")[1:2] == [mission.id]:
            return base.with_suffix("")
    return None


def task_commit(repo: Repo, found: State, at: At) -> str | None:
    """Return what the branch of a step's task stands on; None if it has no branch."""
    return tree_of(repo, found.layout, found.mission, at.id).commit if at.id else None


def others(repo: Repo, found: State, at: At) -> tuple[str, ...]:
    """Return what a task's own branch may hold of others' work: the mission's, other tasks'."""
    own = tree_of(repo, found.layout, found.mission, at.id or "").branch
    rest = f"--branches={OWN_PREFIX}{found.mission.slug}/*"
    return (home(repo, found.layout)[1], f"--exclude={own}", rest)


def hand_out(
    project: Context, found: State, store: WorkReader, step: NextStep, *, makes: bool
) -> Decision:
    """Hand a step out where it is worked on: in the worktree that its task has, or gets now."""
    at, layout, found = step.where, found.layout, found.again(store)
    if at.phase == "accept":
        return unmerged(project.repo, found) or _misplaced(project.repo, found) or step
    if at.id is None:
        return step
    tree = tree_of(project.repo, layout, found.mission, at.id)
    makes = at.phase == "implement" and (makes or _around(layout) is not None)
    if tree.commit is None and not makes:
        return step
    if not makes and not tree.path.is_dir():
        return _gone(found, at, tree)
    try:
        _make(project, found, at.id, tree)
    except BlockedError as error:
        return Halt("blocked", at, error.message, error.code, error.fix or ("treadle doctor",))
    now = found._replace(workspace=layout.task_root(tree.path.name))
    return NextStep(at, write_prompt(now, at), now.workspace)


def unmerged(repo: Repo, found: State) -> Halt | None:
    """Say which approved tasks are on branches of their own; None if all have come together."""
    left = [tree.task_id for tree in to_merge(repo, found, home(repo, found.layout)[1])]
    if not left:
        return None
    reason = f"approved, but not merged yet: {name_some(left)}"
    command = f"{go_home(repo, found.layout)}{merge_command(found.mission)}"
    return Halt("blocked", found.at("accept"), reason, "tasks_unmerged", (command,))


def to_merge(repo: Repo, found: State, tip: str) -> list[TaskTree]:
    """Return the branches of approved tasks that a commit does not hold, in dependency order."""
    ready = found.board.in_lane("approved", "done")
    return [it for it in _not_in(repo, found, tip, ready) if it.id in ready]


def merge_command(mission: Mission) -> str:
    """Return the command that brings a mission's tasks together."""
    return f"treadle mission merge --mission {mission.slug}"


def combine(project: Context, tip: str, found: Sequence[TaskTree]) -> str:
    """Return a commit that holds `tip` and all these branches; no branch moves."""
    repo, base = project.repo, tip
    place = scratch.make(repo, project.layout.worktrees / f".merge-{os.getpid()}")
    try:
        for index, tree in enumerate(found):
            theirs = tree.commit or tip
            if refs.contains(repo, theirs, tip):
                tip = theirs
            if refs.contains(repo, tip, theirs):
                continue
            merged = build.merge_commits(place, tip, theirs)
            if isinstance(merged, Conflict):
                raise _clash(project, base, found[: index + 1], merged.paths)
            tip = _commit(project, place, merged, [tip, theirs], f"Merge {tree.task_id}")
    finally:
        scratch.drop(place)
    return tip


def _commit(project: Context, place: Scratch, tree: str, parents: list[str], text: str) -> str:
    settings = git.read_settings(project.repo)
    who, sign = build.author_of(settings, project.env), build.signs_commits(settings)
    made = build.commit_tree(place, tree, parents, text, when=project.now(), who=who, sign=sign)
    scratch.keep(place)
    return made


def _clash(
    project: Context, base: str, found: Sequence[TaskTree], paths: Sequence[str]
) -> BlockedError:
    """Say which two tasks changed which files, and how the later one takes the earlier one in."""
    repo, last = project.repo, found[-1]
    others = [it for it in found[:-1] if set(paths) & _touched(repo, base, it.commit or base)]
    name = git.head(repo).branch or base[:12]
    whose = [it.task_id for it in others] or [name]
    enter = argument(str(last.path))
    again = f"treadle mission merge --mission {last.task_id.rpartition('.')[0]}"
    make = [] if last.path.is_dir() else [f"git worktree add {enter} {last.branch}"]
    merges = [f"git -C {enter} merge {argument(it)}" for it in [x.branch for x in others] or [name]]
    return BlockedError(
        f"{last.task_id} and {' and '.join(whose)} both changed {name_some(paths)}, and git cannot"
        f" merge that; nothing was merged. Merge by hand in {last.path}, then merge again",
        code="tasks_conflict",
        fix=[*make, *merges, again],
        details={"files": list(paths), "tasks": [last.task_id, *(it.task_id for it in others)]},
    )


def _touched(repo: Repo, base: str, commit: str) -> set[str]:
    start = call.out(["merge-base", base, commit], repo.place).decode("ascii").strip()
    return {change.path for change in trees.changed_files(repo.place, start, commit)}


def _not_in(repo: Repo, found: State, tip: str, ids: Iterable[str]) -> list[TaskTree]:
    named = [tree_of(repo, found.layout, found.mission, id_) for id_ in _ordered(found.board, ids)]
    return [it for it in named if it.commit and not refs.contains(repo, tip, it.commit)]


def _ordered(board: Board, ids: Iterable[str]) -> list[str]:
    """Return tasks and all they depend on, each behind what it needs."""
    found: list[str] = []
    for id_ in ids:
        needed = [it for it in board.file(id_).dependencies if it in board.names]
        found += [it for it in (*_ordered(board, needed), id_) if it not in found]
    return found


def _make(project: Context, found: State, id_: str, tree: TaskTree) -> None:
    """Make branch and worktree as far as they are not there; a kill leaves what is made again."""
    repo = project.repo
    tree.path.parent.mkdir(parents=True, exist_ok=True)
    if tree.commit is None:
        branch, tip = home(repo, found.layout)
        needed = _not_in(repo, found, tip, found.board.file(id_).dependencies)
        begin = combine(project, tip, needed)
        atomic.write(tree.base, f"{branch}\n{found.mission.id}\n".encode())
        reach("task_base_written")
        refs.create(repo, tree.branch, begin)
    reach("task_branch_made")
    record, known = _record(repo, tree.path), find_work_tree(tree.path)
    if record and (record / "locked").exists() and _says(record / "locked", _UNFINISHED):
        call.run(["worktree", "remove", "--force", "--force", str(tree.path)], repo.place)
    elif record and known and known.git_dir == record:
        return
    elif tree.path.is_symlink() or (tree.path.is_dir() and any(tree.path.iterdir())):
        aside = argument(str(tree.path))
        raise BlockedError(
            f"{tree.path} is in the way: it is not a worktree of this repository",
            code="worktree_in_the_way",
            fix=[f"mv {aside} {aside}.old"],
        )
    call.out(["worktree", "prune"], repo.place)
    refs.is_checked_out(repo, tree.branch)
    call.out(["worktree", "add", "--quiet", str(tree.path), tree.branch], repo.place)
    reach("task_tree_made")


def _record(repo: Repo, path: Path) -> Path | None:
    """Return what git keeps of a worktree at this path."""
    for file in (repo.common_dir / "worktrees").glob("*/gitdir"):
        if _says(file, f"{path}/.git"):
            return file.parent
    return None


def _says(path: Path, text: str) -> bool:
    return path.read_text(errors="surrogateescape").strip() == text


def _around(layout: Layout) -> str | None:
    """Return the task whose worktree this is."""
    inside = layout.root.is_relative_to(layout.worktrees)
    return layout.root.relative_to(layout.worktrees).parts[0] if inside else None


def home(repo: Repo, layout: Layout) -> tuple[str, str]:
    """Return the branch that tasks begin from and come back to, and what it stands on."""
    here, around = git.head(repo), _around(layout)
    base = layout.worktrees / f"{around}.base"
    known = base.read_text().split("\n")[0] if around and base.is_file() else None
    branch = known or here.branch or ""
    return branch, refs.resolve(repo, branch) or here.commit or ""


def go_home(repo: Repo, layout: Layout) -> str:
    """Return what leads from a task's worktree to where its mission's branch is checked out."""
    if _around(layout) is None:
        return ""
    places = [it for it in refs.work_trees(repo, home(repo, layout)[0]) if it.is_dir()]
    place = places[0] / repo.prefix if places else layout.shared
    return f"cd {argument(str(place))} && "


def _misplaced(repo: Repo, found: State) -> Halt | None:
    """Send who would accept a mission out of a task's worktree."""
    away = go_home(repo, found.layout)
    if not away:
        return None
    branch = home(repo, found.layout)[0]
    reason = f"a mission is accepted where {branch} is checked out, not in a task's worktree"
    command = f"{away}treadle next --json --mission {found.mission.slug} --agent {found.agent}"
    return Halt("blocked", found.at("accept"), reason, "task_worktree", (command,))


def _gone(found: State, at: At, tree: TaskTree) -> Halt:
    slug = found.mission.slug
    reason = f"the worktree {tree.path} is gone; the work committed on {tree.branch} is kept"
    command = f"treadle next --json --mission {slug} --agent {found.agent} --worktree"
    return Halt("blocked", at, reason, "worktree_gone", (command,))
