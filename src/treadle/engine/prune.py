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
from treadle.engine.run.run import Tools, reach
from treadle.engine.show import view
from treadle.errors import ConfigError, FormatError, GitError, StoreError
from treadle.files import beneath
from treadle.git import refs, remote
from treadle.ids import utc
from treadle.project import key
from treadle.store.runs import RunRow
from treadle.store.store import Reader


class Pruned(NamedTuple):
    """What goes, or would go."""

    workspaces: tuple[str, ...]
    runs: tuple[str, ...]
    archives: tuple[str, ...]


def prune(tools: Tools, *, older_than: float, history: bool, dry_run: bool) -> Pruned:
    """Remove workspaces of ended runs, and archives of no step; with `history` whole runs."""
    limit = utc(tools.now() - timedelta(days=older_than))
    old = [it for it in view.every_run(tools.store) if (it.ended_at or it.created_at) <= limit]
    rows = [row for row in old if _has_ended(tools.store, row)]
    workspaces = [row for row in rows if tools.layout.run(row.run_id).workspace_link.is_symlink()]
    gone = rows if history else []
    vain = [] if history else [name for row in rows for name in _in_vain(tools, row, dry_run)]
    if not dry_run:
        for row in workspaces:
            clean.remove_workspace(tools, row)
        gone = [row for row in gone if _forget(tools, row)]
    return Pruned(_ids(workspaces), _ids(gone), tuple(vain))


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
    hidden = Path(tools.layout.staged_run(row.run_id))  # which the next start would remove
    with contextlib.suppress(FileNotFoundError):
        tools.layout.run(row.run_id).folder.rename(hidden)
    reach("after_folder")
    tools.store.delete_run(row.run_id)
    reach("after_row")
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
