"""Bring a passed run's work into a branch of the user, or take it out again by its inverse."""

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from treadle.engine.checks import observe
from treadle.engine.elsewhere import fleet_run
from treadle.engine.landing import move, tracker
from treadle.engine.run import begin, memory, resume
from treadle.engine.run.memory import Move, Moved
from treadle.engine.run.run import Run, Tools
from treadle.errors import BlockedError, ExitCode, InterruptedRun
from treadle.git import build, refs, repo, scratch
from treadle.git.build import Conflict
from treadle.git.refs import OWN_PREFIX
from treadle.git.scratch import Scratch
from treadle.ids import is_run_id
from treadle.store.runs import RunRow
from treadle.text import line, name_some

_SUBJECT = 72
_NAMED = 20
# Of each kind of obstacle: what it is, its code, and what git can do about it.
_OBSTACLES = {
    "staged": ("staged", "staged_files", ("commit",)),
    "unstaged": ("uncommitted", "uncommitted_files", ("diff", "commit", "stash push")),
    "unknown": ("unknown to git", "file_in_the_way", ()),
}


class Landed(NamedTuple):
    """Where a run's work is now; without a commit there was nothing to bring in."""

    run_id: str
    branch: str
    commit: str | None
    merged: bool = False


class Undone(NamedTuple):
    """The inverse; `exact` says that the tree is the very one from before the landing."""

    run_id: str
    branch: str
    commit: str | None
    exact: bool


class Part(NamedTuple):
    """One commit to be: the change between two trees of the run, and what to say about it."""

    base: str
    tree: str
    message: str


class LandingCommit(NamedTuple):
    """The commit that the branch should stand on, and its tree."""

    commit: str
    tree: str
    is_merged: bool = False


def land(tools: Tools, row: RunRow, *, onto: str | None = None, keep_steps: bool = False) -> Landed:
    """Land a run, or raise BlockedError with everything as it was."""
    if row.status != "passed":
        raise BlockedError(
            f"run {row.run_id} has not passed: it is {row.status}",
            code="not_passed",
            fix=[f"treadle why {row.run_id}"],
        )
    with _taken(tools, row, resume.take_up) as run:
        _require_not_landed(run)
        with move.refusals(run, "land"):
            _require_ground(run)
            name = _target(run, onto)
            tip = _tip(run, name)
            built = _move(run, "land", name, tip, lambda at: _build(run, at, tip, keep_steps))
    return Landed(run.id, name, built and built.commit, bool(built and built.is_merged))


def undo(tools: Tools, row: RunRow) -> Undone:
    """Undo a landing, or raise BlockedError with everything as it was."""
    with _taken(tools, row, resume.take_over) as run:
        landed = _landed(run)
        with move.refusals(run, "undo"):
            tip = _tip_with(run, landed)
            before = repo.tree_of(tools.repo, landed.old)
            built = _move(
                run, "undo", landed.branch, tip, lambda at: _invert(run, at, tip, landed, before)
            )
    is_exact = bool(built and built.tree == before)
    return Undone(run.id, landed.branch, built and built.commit, is_exact)


@contextlib.contextmanager
def _taken(tools: Tools, row: RunRow, take: Callable[[Tools, RunRow], Run]) -> Iterator[Run]:
    """Own a run for as long as the block works, with no move of it left half made."""
    fleet_run.bring_here(tools, row)
    run = take(tools, row)
    try:
        move.finish_move(run)
        yield run
    finally:
        tools.store.release(run.id, run.row.claim_epoch)


def _move(
    run: Run, what: str, name: str, tip: str, build_on: Callable[[Scratch], LandingCommit]
) -> LandingCommit | None:
    """Build a commit beside the repository and move a branch to it; None if nothing changes."""
    here = run.tools.repo
    refs.require_quiet(here, name)
    place = scratch.make(here, run.folder.live / what)
    try:
        built = build_on(place)
        if built.commit == tip:
            return None
        if refs.is_checked_out(here, name):
            refs.require_unlocked(here, name)
            _require_clear(run, place, tip, built.commit)
        scratch.keep(place)
    finally:
        scratch.drop(place)
    if built.is_merged:
        _require_checks(run, built.commit)
    move.make_move(run, Move(what=what, branch=name, old=tip, commit=built.commit))
    return built


def _build(run: Run, place: Scratch, tip: str, keep_steps: bool) -> LandingCommit:
    """Put the run's change on the tip, as one commit or step by step; no change, no commit."""
    is_base, signs = tip == run.row.base_commit, build.signs_commits(run.tools.git_settings)
    built = LandingCommit(tip, repo.tree_of(run.tools.repo, tip))
    if keep_steps and is_base and not signs and not run.order.message:
        return LandingCommit(run.head, run.tree)
    parts = tuple(_parts(run, keep_steps))
    by_hand = (f"git merge {shlex.quote(run.row.branch or '')}", _again(run))
    for part in parts:
        tree = _combine(place, part.base, built.tree, part.tree, by_hand)
        is_merged = tree != run.tree
        if part is parts[-1]:
            tree = tracker.listed(run, place, tip, tree)
        if tree != built.tree:
            new = _commit(run, place, tree, built.commit, part.message)
            built = LandingCommit(new, tree, is_merged)
    return built


def _invert(run: Run, place: Scratch, tip: str, landed: Moved, before: str) -> LandingCommit:
    after, now = (repo.tree_of(run.tools.repo, commit) for commit in (landed.commit, tip))
    tree = _combine(place, after, now, before, [f"git revert {landed.commit[:12]}"])
    if tree == now:
        return LandingCommit(tip, now)
    message = _message(run, "Undo: ", f"This takes back {landed.commit}.")
    return LandingCommit(_commit(run, place, tree, tip, message), tree)


def _parts(run: Run, keep_steps: bool) -> Iterator[Part]:
    base = repo.tree_of(run.tools.repo, run.row.base_commit or "")
    if not keep_steps:
        yield Part(base, run.tree, _message(run))
        return
    for step in run.tools.store.steps(run.id):
        if step.tree and step.tree != base:
            yield Part(base, step.tree, _message(run, f"{step.role} {step.iteration}: "))
            base = step.tree
    if run.order.message:
        yield Part(base, base, _message(run))


def _message(run: Run, prefix: str = "", body: str = "") -> str:
    """Return the message of a commit: the goal, and where it came from."""
    order = run.order
    text = prefix + " ".join(line(order.goal).split())
    short = text if len(text) <= _SUBJECT else f"{text[: _SUBJECT - 1].rstrip()}…"
    spec = order.message.spec if order.message else None
    origin = {"Run": run.id, "Task": order.task_id, "Spec": spec}
    trailers = "\n".join(f"Treadle-{key}: {value}" for key, value in origin.items() if value)
    parts = [short, text if short != text else "", body, trailers]
    return "\n\n".join(part for part in parts if part) + "\n"


def _commit(run: Run, place: Scratch, tree: str, parent: str, text: str) -> str:
    """Commit a tree as the user would; no branch moves."""
    settings = run.tools.git_settings
    who, sign = build.author_of(settings, run.tools.env), build.signs_commits(settings)
    return build.commit_tree(place, tree, parent, text, when=run.tools.now(), who=who, sign=sign)


def _combine(place: Scratch, base: str, ours: str, theirs: str, fix: Sequence[str]) -> str:
    """Merge three trees; BlockedError names the files that both sides changed."""
    if ours == base:
        return theirs
    found = build.three_way(place, base, ours, theirs)
    if isinstance(found, Conflict):
        raise BlockedError(
            f"both sides changed {name_some(found.paths)}",
            code="merge_conflict",
            fix=fix,
            details={"files": list(found.paths)},
        )
    return found


def _again(run: Run) -> str:
    return f"treadle run {run.row.task_id}" if run.row.task_id else "treadle run --goal …"


def _require_clear(run: Run, place: Scratch, old: str, new: str) -> None:
    """Name the files that would be overwritten; `new` may still lie in the scratch place."""
    where = run.tools.repo.place | {"GIT_OBJECT_DIRECTORY": str(place.store)}
    found = refs.find_obstacles(run.tools.repo.root, where, old, new)
    for kind, paths in found._asdict().items():
        if not paths:
            continue
        what, code, verbs = _OBSTACLES[kind]
        names = [shlex.quote(path) for path in paths[:_NAMED]]
        aside = [f"mv {name} {name}.mine" for name in names]
        raise BlockedError(
            f"files in your checkout that are {what} would be overwritten: {name_some(paths)}",
            code=code,
            fix=[f"git {verb} -- {' '.join(names)}" for verb in verbs] or aside,
            details={"files": list(paths)},
        )


def _require_not_landed(run: Run) -> None:
    landed = run.memory.landed
    if landed and not run.memory.undone:
        raise BlockedError(
            f"run {run.id} landed already: {landed.commit[:12]} on {landed.branch}",
            code="already_landed",
            fix=[f"git show {landed.commit[:12]}", f"treadle undo {run.id}"],
        )


def _require_ground(run: Run) -> None:
    """Refuse a run that builds on another one's work before that is in."""
    below = run.memory.stacked_on
    if below and not memory.recall(run.tools.store, below).landed_commit:
        raise BlockedError(
            f"run {run.id} builds on run {below}, which has not landed",
            code="stacked",
            fix=[f"treadle land {below}", f"treadle land {run.id}"],
        )


def _target(run: Run, onto: str | None) -> str:
    name = onto.removeprefix("refs/heads/") if onto else run.row.base_branch
    again = f"treadle land {run.id} --onto BRANCH"
    if not name:
        text = f"run {run.id} began on a detached HEAD; say which branch it should land on"
        raise BlockedError(text, code="no_branch", fix=["git branch", again])
    own = name.startswith(OWN_PREFIX) and is_run_id(name.removeprefix(OWN_PREFIX))
    if name == run.row.branch or own:
        text = f"{name} is a run's own branch, which only its steps move"
        raise BlockedError(text, code="own_branch", fix=[again])
    return name


def _tip(run: Run, name: str) -> str:
    found = refs.resolve(run.tools.repo, name)
    if found is None:
        make = f"git branch {shlex.quote(name)} {(run.row.base_commit or '')[:12]}"
        fix = [make, f"treadle land {run.id} --onto BRANCH"]
        raise BlockedError(f"there is no branch {name}", code="branch_missing", fix=fix)
    return found


def _landed(run: Run) -> Moved:
    undone, landed = run.memory.undone, run.memory.landed
    if undone:
        raise BlockedError(
            f"run {run.id} is undone already: {undone.commit[:12]} on {undone.branch}",
            code="already_undone",
            fix=[f"git show {undone.commit[:12]}", f"treadle land {run.id}"],
        )
    if landed is None:
        text = f"run {run.id} has not landed, so there is nothing to undo"
        raise BlockedError(text, code="not_landed", fix=[f"treadle runs show {run.id}"])
    return landed


def _tip_with(run: Run, landed: Moved) -> str:
    """Return where the branch of a landing stands, which must still hold it."""
    name = shlex.quote(landed.branch)
    tip = refs.resolve(run.tools.repo, landed.branch)
    if tip is None:
        text = f"there is no branch {landed.branch}, on which run {run.id} landed"
        raise BlockedError(text, code="branch_missing", fix=[f"git branch {name} BASE"])
    if not refs.contains(run.tools.repo, tip, landed.commit):
        raise BlockedError(
            f"{landed.branch} no longer holds {landed.commit[:12]}: its history was rewritten",
            code="not_in_branch",
            fix=[f"git log --oneline -5 {name}"],
        )
    return tip


def _require_checks(run: Run, commit: str) -> None:
    """Run the criteria's commands on a merged commit, where the run's own were checked."""
    if not run.order.commands:
        return
    if run.memory.stop_requested:
        run.record(stop_requested=None)
    if not observe.in_clean_place(run):
        _open_workspace(run)
    found, stopped = observe.observe_commit(run, commit, run.folder.landing)
    if stopped:
        raise _interrupted(stopped)
    run.record(*(observe.observed(item, " on the merged tree") for item in found))
    if failed := [seen for seen in found if not seen.passed]:
        names = ", ".join(f"{seen.id} ({seen.command})" for seen in failed)
        where = run.tools.layout.relative(run.folder.landing)
        raise BlockedError(
            f"merged with what came meanwhile, the work no longer passes: {names}",
            code="checks_failed",
            fix=[*(f"cat {where}/{seen.id}.txt" for seen in failed), _again(run)],
        )


def _open_workspace(run: Run) -> None:
    failed = begin.reopen(run)
    if failed and failed.reason == "stopped":
        raise _interrupted(failed.detail)
    if failed:
        raise BlockedError(begin.setup_failure(run, failed), code="checks_failed")


def _interrupted(reason: str) -> InterruptedRun:
    ending = ExitCode.INTERRUPTED if "SIGINT" in reason else ExitCode.TERMINATED
    return InterruptedRun(f"not landed: {reason}", exit_code=ending)
