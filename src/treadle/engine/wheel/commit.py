"""Commit a step: folder, branch, store, in that order, each of them in one instant."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.engine.run import memory, run_files
from treadle.engine.run.run import Archive, Run, lost_branch, reach
from treadle.engine.run.run_files import Manifest, Snapshot
from treadle.engine.run.step_folder import Stage
from treadle.engine.wheel import end
from treadle.errors import GitError
from treadle.files import atomic, sync
from treadle.files.walk import Entry
from treadle.git import refs, workspace
from treadle.git.scratch import Scratch
from treadle.layout import STEP_JSON
from treadle.store.runs import History

MOVED = "branch_moved"


class Finished(NamedTuple):
    """A step whose folder and branch are in place, and of which the store does not know yet."""

    stage: Stage
    found: Manifest
    digest: str
    problem: GitError | None  # why the branch did not come along
    told: str = ""  # what the onlooker is told when it is recorded


def put_in_place(
    run: Run, stage: Stage, entries: Sequence[Entry], found: Manifest, place: Scratch | None
) -> Finished:
    """Give the step's folder its final name, and bring branch and workspace to its commit."""
    reach("before_manifest")
    found = found._replace(files=run_files.digests(stage.folder, entries))
    digest = run_files.write_step(stage.folder, found)
    reach("before_sync")
    sync.sync_all(_everything(stage.folder, entries))
    reach("before_rename")
    sync.rename_new(stage.folder, stage.final)
    reach("after_rename")
    atomic.sync(run.folder.steps)
    return Finished(stage, found, digest, _follow(run, found, place))


def record(run: Run, done: Finished, archive: Archive | None = None) -> None:
    """Make the step true; only when this returns may anyone be told."""
    reach("before_transaction")
    settle(run, done.found, done.digest, archive)
    reach("after_transaction")
    stand_still(run, done.problem)


def stand_still(run: Run, problem: GitError | None) -> None:
    """End a run whose branch did not come along: lost to somebody else, or in use for now."""
    if problem is None:
        return
    if problem.code == MOVED:
        lost_branch(run)
    else:
        run.end("stopped", problem.code, problem.message)


def settle(run: Run, found: Manifest, digest: str | None, archive: Archive | None = None) -> None:
    """Tell the store what the folder says; the epoch keeps out an owner that lost the run."""
    key, sha256 = archive or (None, None)
    row = found.row._replace(digest=digest, archive=key, archive_sha256=sha256)
    history = History((row,), found.events, found.kv, found.usage, found.checks)
    is_settled = end.is_nothing(run, found)
    run.tools.store.advance(run.id, history, found.cursor, run.row.claim_epoch, is_settled)
    run.row = run.row._replace(**found.cursor._asdict())
    if is_settled:
        run.row = run.row._replace(owner=None)
    run.memory = memory.apply(run.memory, found.kv)
    run.tree, run.last_seq = found.after.tree, run.last_seq + len(found.events)
    run.step_dirs.append(f"{run.tools.layout.shared}/{found.row.step_dir}")


def _follow(run: Run, found: Manifest, place: Scratch | None) -> GitError | None:
    """Bring the run's branch and workspace to the step's commit, or return what is in the way."""
    if found.after.commit == found.before.commit:
        return None
    reach("before_branch")
    if problem := move_branch(run, found.before, found.after):
        return problem
    reach("after_branch")
    if place:
        workspace.adopt(run.workspace, place.index, found.after.commit)
    else:
        workspace.follow(run.workspace, found.after.commit)
    reach("after_workspace")
    return None


def move_branch(run: Run, before: Snapshot, after: Snapshot) -> GitError | None:
    """Swap the branch from the old commit to the new, or return why it is not there now."""
    name = run.row.branch or ""
    if before.commit == after.commit:
        return None
    try:
        moved = refs.move(run.tools.repo, name, after.commit, before.commit)
    except GitError as error:
        return error
    if moved or refs.resolve(run.tools.repo, name) == after.commit:
        return None
    return GitError(f"branch {name} was moved by someone else", code=MOVED)


def _everything(folder: Path, entries: Sequence[Entry]) -> list[str]:
    place = str(folder)
    return [
        place,
        f"{place}/{STEP_JSON}",
        *(f"{place}/{entry.path}" for entry in entries),
    ]
