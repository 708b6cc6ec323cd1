"""Take a landed run's work out of its branch again, by one commit that is its inverse."""

import shlex
from typing import NamedTuple

from treadle.engine.elsewhere import restore
from treadle.engine.landing import land, move
from treadle.engine.landing.land import combine, commit_on
from treadle.engine.run import resume
from treadle.engine.run.memory import Move, Moved
from treadle.engine.run.run import Run, Tools
from treadle.errors import BlockedError
from treadle.git import refs, repo, scratch
from treadle.store.runs import RunRow


class Undone(NamedTuple):
    """The inverse; `exact` says that the tree is the very one from before the landing."""

    run_id: str
    branch: str
    commit: str | None
    exact: bool


def undo(tools: Tools, row: RunRow) -> Undone:
    """Undo a landing, or raise BlockedError with everything as it was."""
    restore.bring_here(tools, row)
    run = resume.take_over(tools, row)
    try:
        move.finish_move(run)
        landed = _landed(run)
        with move.refusals(run, "undo"):
            return _invert(run, landed)
    finally:
        tools.store.release(run.id, run.row.claim_epoch)


def _invert(run: Run, landed: Moved) -> Undone:
    tip = _tip(run, landed)
    place_repo, name = run.tools.repo, landed.branch
    refs.require_quiet(place_repo, name)
    before, after, now = (
        repo.tree_of(place_repo, commit) for commit in (landed.old, landed.commit, tip)
    )
    place = scratch.make(place_repo, run.folder.live / "undo")
    try:
        tree = combine(place, after, now, before, [f"git revert {landed.commit[:12]}"])
        if tree == now:
            return Undone(run.id, name, None, False)
        text = land.undo_message(run.order, run.id, landed.commit)
        new = commit_on(run, place, tree, tip, text)
        if refs.is_checked_out(place_repo, name):
            refs.require_unlocked(place_repo, name)
            land.require_clear(run, place, tip, new)
        scratch.keep(place)
    finally:
        scratch.drop(place)
    move.make_move(run, Move(what="undo", branch=name, old=tip, commit=new))
    return Undone(run.id, name, new, repo.tree_of(place_repo, new) == before)


def _landed(run: Run) -> Moved:
    undone = run.memory.undone
    if undone:
        raise BlockedError(
            f"run {run.id} is undone already: {undone.commit[:12]} on {undone.branch}",
            code="already_undone",
            fix=[f"git show {undone.commit[:12]}", f"treadle land {run.id}"],
        )
    landed = run.memory.landed
    if landed is None:
        raise BlockedError(
            f"run {run.id} has not landed, so there is nothing to undo",
            code="not_landed",
            fix=[f"treadle runs show {run.id}"],
        )
    return landed


def _tip(run: Run, landed: Moved) -> str:
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
