"""Put a run's change on what came to its branch meanwhile; a conflict is the agents' to resolve."""

import re
from shlex import quote
from typing import NamedTuple

from treadle.engine.landing import land, move
from treadle.engine.run import memory, resume
from treadle.engine.run.memory import Move
from treadle.engine.run.order import after_conflict
from treadle.engine.run.run import Run, Tools
from treadle.errors import BlockedError
from treadle.git import build, refs, repo, scratch, trees
from treadle.git.build import Built, Conflict
from treadle.git.scratch import Scratch
from treadle.store.runs import RunRow

_MARKS = re.compile(rb"(?m)^(<<<<<<<|>>>>>>>)( |$)")


class Rebased(NamedTuple):
    """What a run's change stands on now, and where it conflicts with that."""

    run_id: str
    base: str
    commit: str
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def rebase(tools: Tools, row: RunRow) -> Rebased:
    """Move a run's change to the tip of its branch, or raise BlockedError with all as it was."""
    if row.status == "running" or memory.is_queued(row, memory.recall(tools.store, row.run_id)):
        text = f"run {row.run_id} is at work; it can be rebased once it has ended"
        fix = [f"treadle stop {row.run_id}", f"treadle log -f {row.run_id}"]
        raise BlockedError(text, code="still_running", fix=fix)
    if row.branch is None:
        text = f"run {row.run_id} worked in your own checkout, so there is nothing to rebase"
        raise BlockedError(text, code="no_workspace", fix=[f"treadle why {row.run_id}"])
    with land.taken(tools, row, resume.take_up) as run:
        land.require_not_landed(run, goes_on=True)
        with move.refusals(run, "rebase"):
            if (held := run.memory.held) and not held.rejected:
                text = f"run {run.id} waits for your word about its {held.what}"
                ways = memory.next_commands(run.row, run.memory)
                raise BlockedError(text, code="waits_for_approval", fix=ways)
            name = land.target(run, None)
            tip = land.tip_of(run, name)
            _require_moved(run, name, tip)
            resume.keep_interrupted(run)
            found = _build(run, tip)
            if refs.resolve(tools.repo, row.branch) is None:
                refs.create(tools.repo, row.branch, run.head)
            files = (*found.files, *found.notes)
            went = Move("rebase", row.branch, run.head, found.commit, found.base, files)
            move.make_move(run, went)
    return found


def _require_moved(run: Run, name: str, tip: str) -> None:
    go_on = f"treadle {'land' if run.row.status == 'passed' else 'run --resume'} {run.id}"
    for below in run.memory.stacked_on:
        if not memory.recall(run.tools.store, below).landed_commit:
            text = f"run {run.id} builds on run {below}, which has not landed"
            fix = [f"treadle land {below}", f"treadle rebase {run.id}"]
            raise BlockedError(text, code="stacked", fix=fix)
    why = None
    if tip == run.row.base_commit:
        why = "has not moved since it began"
    elif refs.contains(run.tools.repo, tip, run.head):
        why = "already has all its changes"
    if why:
        text = f"there is nothing to rebase: {name} {why}"
        raise BlockedError(text, code="nothing_to_rebase", fix=[go_on])


def _build(run: Run, tip: str) -> Rebased:
    """Commit the run's change on the tip, beside the repository; conflicts stay in as markers."""
    here, place = run.tools.repo, scratch.make(run.tools.repo, run.folder.live / "rebase")
    try:
        base, ours = (repo.tree_of(here, commit) for commit in (run.row.base_commit or "", tip))
        found = land.merge(run, place, base, ours, run.tree)
        if isinstance(found, str):
            found = Conflict((), found)
        if found.paths and run.order.script:
            raise land.conflict(found.paths, after_conflict(run.order, run.id))
        tree, notes = _noted(run, place, tip, found)
        message = f"rebase: {run.order.goal}\n\nTreadle-Run: {run.id}\n"
        author = build.author_of(run.workspace.config)
        new = build.commit(Built(tree, place), tip, message, run.tools.now(), author)
        return Rebased(run.id, tip, new, found.paths, notes)
    finally:
        scratch.drop(place)


def _noted(run: Run, place: Scratch, tip: str, found: Conflict) -> tuple[str, tuple[str, ...]]:
    """Return the tree with a note beside each file whose conflict has left no markers in it.

    A file that one side deleted, a binary one or another mode looks resolved from the start; only
    taking the note away says that somebody has decided.
    """
    tree, notes = found.tree, []
    for path in found.paths:
        if _MARKS.search(trees.read_blob(place, f"{tree}:{path}") or b""):
            continue
        name = f"{path}{move.NOTE}"
        while trees.read_blob(place, f"{tree}:{name}") is not None:
            name += move.NOTE
        ways = (_way(run, commit, path) for commit in (tip, run.head))
        text = (
            f"Git cannot merge {path}. Put it as it should be, or leave it as it lies here,"
            " and delete this note.\n<<<<<<< {}\n{}\n=======\n{}\n>>>>>>> {}\n"
        ).format(run.row.base_branch, *ways, run.row.branch)
        tree = trees.put_file(place, tree, name, text.encode())
        notes.append(name)
    return tree, tuple(notes)


def _way(run: Run, commit: str, path: str) -> str:
    is_there = trees.files(run.tools.repo, commit, [path])
    return f"git show {commit[:12]}:{quote(path)}" if is_there else f"has no {path}"
