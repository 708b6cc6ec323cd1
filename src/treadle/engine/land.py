"""Bring a passed run's work into a branch of the user."""

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from treadle.engine import intent, load, message, obstruct, recheck, tracker, whereabouts
from treadle.engine.edits import name_some
from treadle.engine.intent import Done, Move
from treadle.engine.run import Run, Tools
from treadle.errors import BlockedError
from treadle.git import commit, refs, repo, scratch
from treadle.git.commit import Conflict
from treadle.git.refs import OWN_PREFIX
from treadle.git.scratch import Scratch
from treadle.ids import is_run_id
from treadle.store.runs import RunRow


class Landed(NamedTuple):
    """Where a run's work is now; without a commit there was nothing to bring in."""

    run_id: str
    branch: str
    commit: str | None
    merged: bool = False


class Part(NamedTuple):
    """One commit to be: the change between two trees of the run, and what to say about it."""

    base: str
    tree: str
    message: str


class Built(NamedTuple):
    """The commit that the branch should stand on, and its tree."""

    commit: str
    tree: str
    is_merged: bool = False


def land(tools: Tools, row: RunRow, *, onto: str | None = None, keep_steps: bool = False) -> Landed:
    """Land a run, or raise BlockedError with everything as it was."""
    _require_passed(row)
    run = load.take_up(tools, row)
    try:
        intent.settle(run)
        _require_not_landed(run)
        with intent.refusals(run, "land"):
            _require_ground(run)
            return _bring(run, _target(run, onto), keep_steps)
    finally:
        tools.store.release(run.id, run.row.claim_epoch)


def _bring(run: Run, name: str, keep_steps: bool) -> Landed:
    tip = _tip(run, name)
    refs.require_quiet(run.tools.repo, name)
    place = scratch.make(run.tools.repo, run.folder.live / "land")
    try:
        built = _build(run, place, tip, keep_steps)
        if built.commit == tip:
            return Landed(run.id, name, None)
        if refs.is_checked_out(run.tools.repo, name):
            refs.require_unlocked(run.tools.repo, name)
            obstruct.require_clear(run, place, tip, built.commit)
        scratch.keep(place)
    finally:
        scratch.drop(place)
    if built.is_merged:
        recheck.require(run, built.commit)
    intent.make(run, Move(what="land", branch=name, old=tip, commit=built.commit))
    return Landed(run.id, name, built.commit, built.is_merged)


def _build(run: Run, place: Scratch, tip: str, keep_steps: bool) -> Built:
    """Put the run's change on the tip, as one commit or step by step; no change, no commit."""
    is_base, signs = tip == run.row.base_commit, commit.signs(run.tools.git_settings)
    built = Built(tip, repo.tree_of(run.tools.repo, tip))
    if keep_steps and is_base and not signs and not run.order.message:
        return Built(run.head, run.tree)
    parts = tuple(_parts(run, keep_steps))
    for part in parts:
        tree = combine(place, part.base, built.tree, part.tree, _by_hand(run))
        is_merged = tree != run.tree
        if part is parts[-1]:
            tree = tracker.listed(run, place, tip, tree)
        if tree != built.tree:
            new = commit_on(run, place, tree, built.commit, part.message)
            built = Built(new, tree, is_merged)
    return built


def commit_on(run: Run, place: Scratch, tree: str, parent: str, text: str) -> str:
    """Commit a tree as the user would; no branch moves."""
    settings = run.tools.git_settings
    who, sign = commit.committer(settings, run.tools.env), commit.signs(settings)
    return commit.commit_tree(place, tree, parent, text, when=run.tools.now(), who=who, sign=sign)


def combine(place: Scratch, base: str, ours: str, theirs: str, fix: Sequence[str]) -> str:
    """Merge three trees; BlockedError names the files that both sides changed."""
    if ours == base:
        return theirs
    found = commit.three_way(place, base, ours, theirs)
    if isinstance(found, Conflict):
        raise BlockedError(
            f"both sides changed {name_some(found.paths)}",
            code="merge_conflict",
            fix=fix,
            details={"files": list(found.paths)},
        )
    return found.tree


def _by_hand(run: Run) -> tuple[str, ...]:
    """Return how to go on where git cannot merge: by hand, or by a new run from the new base."""
    again = f"treadle run {run.row.task_id}" if run.row.task_id else "treadle run --goal …"
    return f"git merge {shlex.quote(run.row.branch or '')}", again


def _parts(run: Run, keep_steps: bool) -> Iterator[Part]:
    base = repo.tree_of(run.tools.repo, run.row.base_commit or "")
    if not keep_steps:
        yield Part(base, run.tree, message.landing(run.order, run.id))
        return
    for step in run.tools.store.steps(run.id):
        if step.tree and step.tree != base:
            yield Part(base, step.tree, message.step(run.order, run.id, step))
            base = step.tree
    if run.order.message:
        yield Part(base, base, message.landing(run.order, run.id))


def _require_passed(row: RunRow) -> None:
    if row.status != "passed":
        raise BlockedError(
            f"run {row.run_id} has not passed: it is {row.status}",
            code="not_passed",
            fix=[f"treadle why {row.run_id}"],
        )


def _require_not_landed(run: Run) -> None:
    landed: Done | None = intent.done(run, intent.LANDED)
    if landed and not intent.done(run, intent.UNDONE):
        raise BlockedError(
            f"run {run.id} landed already: {landed.commit[:12]} on {landed.branch}",
            code="already_landed",
            fix=[f"git show {landed.commit[:12]}", f"treadle undo {run.id}"],
        )


def _require_ground(run: Run) -> None:
    """Refuse a run that builds on another one's work before that is in."""
    below = run.kv.get("stacked_on")
    if isinstance(below, str) and not whereabouts.now(run.tools.store.kv(below)):
        raise BlockedError(
            f"run {run.id} builds on run {below}, which has not landed",
            code="stacked",
            fix=[f"treadle land {below}", f"treadle land {run.id}"],
        )


def _target(run: Run, onto: str | None) -> str:
    name = onto.removeprefix("refs/heads/") if onto else run.row.base_branch
    again = f"treadle land {run.id} --onto BRANCH"
    if not name:
        raise BlockedError(
            f"run {run.id} began on a detached HEAD; say which branch it should land on",
            code="no_branch",
            fix=["git branch", again],
        )
    own = name.startswith(OWN_PREFIX) and is_run_id(name.removeprefix(OWN_PREFIX))
    if name == run.row.branch or own:
        text = f"{name} is a run's own branch, which only its steps move"
        raise BlockedError(text, code="own_branch", fix=[again])
    return name


def _tip(run: Run, name: str) -> str:
    found = refs.resolve(run.tools.repo, name)
    if found is None:
        base = (run.row.base_commit or "")[:12]
        raise BlockedError(
            f"there is no branch {name}",
            code="branch_missing",
            fix=[
                f"git branch {shlex.quote(name)} {base}",
                f"treadle land {run.id} --onto BRANCH",
            ],
        )
    return found
