"""Remove what ended runs no longer need."""

import contextlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from treadle.engine.checks import clean
from treadle.engine.elsewhere import archive, fleet_run
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.elsewhere.fleet_run import Ticket
from treadle.engine.run import memory
from treadle.engine.run.run import Tools, reach, readable
from treadle.engine.show import view
from treadle.errors import ConfigError, FormatError, GitError, StoreError
from treadle.files import beneath
from treadle.git import refs, remote, trees
from treadle.git.trees import FileChange
from treadle.ids import utc
from treadle.project import key
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks import claim

_DAILY = "[keep]"  # as the store knows when it was last applied


class UnlandedWork(NamedTuple):
    """What would be lost with a run that passed and has not landed."""

    run_id: str
    goal: str
    branch: str | None
    files: tuple[str, ...]


class Pruned(NamedTuple):
    """What goes, or would go; `unlanded` is what goes with it, or stays for its sake."""

    workspaces: tuple[str, ...]
    runs: tuple[str, ...]
    archives: tuple[str, ...]
    unlanded: tuple[UnlandedWork, ...] = ()


def prune(
    tools: Tools, *, older_than: float, history: bool, dry_run: bool, unlanded: bool = False
) -> Pruned:
    """Remove workspaces of ended runs, archives of no step, and runs that `[keep]` does not keep.

    With `history` all of these runs go. One that passed and has not landed stays, unless it is
    `unlanded` work that shall go.
    """
    ended = [row for row in view.every_run(tools.store) if _has_ended(tools.store, row)]
    rows = _older(tools, ended, older_than)
    workspaces = [row for row in rows if tools.layout.run(row.run_id).workspace_link.is_symlink()]
    wanted = rows if history else _outdated(tools, ended)
    waits = [row for row in wanted if row.status == "passed" and memory.may_land(tools.store, row)]
    lost, stay = tuple(_work(tools, row) for row in waits), {*_ids(waits)}
    gone = _unneeded(tools, [row for row in wanted if unlanded or row.run_id not in stay])
    going = {*_ids(gone)}  # of 100,000 runs, asking a list would take minutes
    kept = [row for row in rows if row.run_id not in going]
    vain = [name for row in kept for name in _in_vain(tools, row, dry_run)]
    if not dry_run:
        for row in workspaces:
            clean.remove_workspace(tools, row)
        gone = [row for row in gone if _forget(tools, row)]
    return Pruned(_ids(workspaces), _ids(gone), tuple(vain), lost)


def apply_daily(tools: Tools) -> Pruned | None:
    """Remove what `[keep]` does not keep, once a day."""
    now, last = tools.now(), tools.store.last_fire(_DAILY)
    if last and last > utc(now - timedelta(days=1)):
        return None
    tools.store.fired(_DAILY, now)
    return prune(tools, older_than=tools.today.keep.days, history=False, dry_run=False)


def _older(tools: Tools, rows: Sequence[RunRow], days: float) -> list[RunRow]:
    limit = utc(tools.now() - timedelta(days=days))
    return [row for row in rows if (row.ended_at or row.created_at) <= limit]


def _outdated(tools: Tools, ended: Sequence[RunRow]) -> list[RunRow]:
    """Return the runs that are neither among the newest nor of the last days, nor asked about."""
    keep = tools.today.keep
    asked = {row.run_id for row in tools.store.questions()}
    old = _older(tools, ended[keep.runs :], keep.days)
    return [row for row in old if row.run_id not in asked]


def _unneeded(tools: Tools, rows: Sequence[RunRow]) -> list[RunRow]:
    """Return the runs that no run builds on which is to stay and may land."""
    ids = {row.run_id for row in rows}
    others = [row for row in view.every_run(tools.store) if row.run_id not in ids]
    needed = {
        below
        for row in others
        for below in memory.recall(tools.store, row.run_id).stacked_on
        if memory.may_land(tools.store, row)
    }
    return [row for row in rows if row.run_id not in needed]


def _work(tools: Tools, row: RunRow) -> UnlandedWork:
    found: tuple[FileChange, ...] = ()
    with contextlib.suppress(GitError):  # its commits are gone already
        commits = row.base_commit or "", row.head_commit or ""
        found = trees.changed_files(tools.repo.place, *commits)
    files = tuple(readable(change.path) for change in found)
    return UnlandedWork(row.run_id, row.goal, row.branch, files)


def _has_ended(store: Reader, row: RunRow) -> bool:
    known = memory.recall(store, row.run_id)
    return row.status != "running" and not memory.is_queued(row, known)


def _forget(tools: Tools, row: RunRow) -> bool:
    """Remove a run; one whose archives cannot be removed stays, or nobody would know of them."""
    try:
        ticket = _ticket(tools, row)
        if ticket:
            Shelf(ticket.artifacts).remove(archive.folder(row.run_id))
    except (StoreError, FormatError, ConfigError) as error:
        tools.note(row.run_id, f"run {row.run_id} stays: {error.message}")
        return False
    if ticket and row.branch:
        _withdraw(tools, row, ticket)
    if row.branch and (commit := refs.resolve(tools.repo, row.branch)):
        refs.delete(tools.repo, row.branch, commit)
    refs.hold(tools.repo, row.run_id, None)
    hidden = Path(tools.layout.staged_run(row.run_id))  # which the next start would remove
    with contextlib.suppress(FileNotFoundError):
        tools.layout.run(row.run_id).folder.rename(hidden)
    reach("after_folder")
    tools.store.delete_run(row.run_id)
    reach("after_row")
    claim.lose_run(tools.store, row, tools.now())
    beneath.remove_tree(hidden)
    return True


def _withdraw(tools: Tools, row: RunRow, ticket: Ticket) -> None:
    """Remove a run's branch from the shared repository, unless somebody else moved it."""
    try:
        remote.push(tools.repo, ticket.remote, "", row.branch or "", row.head_commit)
    except GitError as error:
        tools.note(row.run_id, f"its branch stays in the shared repository: {error.message}")


def _in_vain(tools: Tools, row: RunRow, dry_run: bool) -> list[str]:
    """Remove what workers uploaded that had lost the run; a stopped run may still go on with it."""
    steps = tools.store.steps(row.run_id)
    kept = {step.archive for step in steps}
    # A store that was rebuilt does not know which archive of a step is the one that counts.
    unknown = {
        archive.of_step(row.run_id, step.step_index, step.role)
        for step in steps
        if step.archive is None
    }
    try:
        ticket = _ticket(tools, row) if row.status != "stopped" else None
        if ticket is None:
            return []
        shelf = Shelf(ticket.artifacts)
        names = shelf.names(archive.folder(row.run_id))
        found = [name for name in names if name.endswith(archive.SUFFIX) and name not in kept]
        found = [name for name in found if archive.step_of(name) not in unknown]
        if not dry_run:
            for name in found:
                shelf.remove(name)
    except (StoreError, FormatError, ConfigError) as error:
        tools.note(row.run_id, f"its archives stay: {error.message}")
        return []
    return found


def _ticket(tools: Tools, row: RunRow) -> Ticket | None:
    """Return where a run of the fleet put things; None for any other run."""
    known = memory.recall(tools.store, row.run_id)
    if not known.is_of_fleet:
        return None
    return fleet_run.order_of(row, known, key.read(tools.env, tools.layout.root)).ticket


def _ids(rows: Sequence[RunRow]) -> tuple[str, ...]:
    return tuple(row.run_id for row in rows)
