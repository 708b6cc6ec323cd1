"""Remove what ended runs no longer need."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from treadle.engine import archive, load, queue
from treadle.engine.archive import Shelf
from treadle.engine.progress import Progress
from treadle.engine.run import Tools
from treadle.errors import FormatError, StoreError
from treadle.files import remove
from treadle.git import branch
from treadle.ids import utc
from treadle.layout import scratch_of, workspace_root
from treadle.store.rows.run import RunRow

_PAGE = 500


class Pruned(NamedTuple):
    """What goes, or would go."""

    workspaces: tuple[str, ...]
    runs: tuple[str, ...]


def prune(tools: Tools, *, older_than: float, history: bool, dry_run: bool) -> Pruned:
    """Remove the workspaces of ended runs; with `history` also folder, archives, rows, branch."""
    limit = utc(tools.now() - timedelta(days=older_than))
    rows = [row for row in _ended(tools) if (row.ended_at or row.created_at) <= limit]
    workspaces = [row for row in rows if _has_workspace(tools, row)]
    gone = rows if history else []
    if not dry_run:
        for row in workspaces:
            remove_workspace(tools, row)
        gone = [row for row in gone if _forget(tools, row)]
    return Pruned(_ids(workspaces), _ids(gone))


def _ended(tools: Tools) -> list[RunRow]:
    found: list[RunRow] = []
    page = tools.store.runs(_PAGE)
    while page:
        found += [row for row in page if row.status != "running" and not _waits(tools, row)]
        page = tools.store.runs(_PAGE, page[-1].run_id)
    return found


def _waits(tools: Tools, row: RunRow) -> bool:
    return queue.is_queued(row, tools.store.kv(row.run_id)) if row.status == "stopped" else False


def _has_workspace(tools: Tools, row: RunRow) -> bool:
    return tools.layout.run(row.run_id).workspace_link.is_symlink()


def remove_workspace(tools: Tools, row: RunRow) -> None:
    """Delete the checkout that run.json names, never merely what the link points at."""
    folder = tools.layout.run(row.run_id)
    try:
        path = load.load(tools, row).workspace.path
    except FormatError:
        path = workspace_root(tools.env, tools.layout.root) / row.run_id
    remove.remove_tree(path)
    remove.remove_tree(scratch_of(path))
    folder.workspace_link.unlink(missing_ok=True)
    folder.index.unlink(missing_ok=True)


def _forget(tools: Tools, row: RunRow) -> bool:
    """Remove a run; one whose archives cannot be removed stays, or nobody would know of them."""
    try:
        _clear(tools, row)
    except StoreError as error:
        message = f"run {row.run_id} stays: {error.message}"
        tools.watch(Progress(kind="note", run_id=row.run_id, message=message))
        return False
    if row.branch and (commit := branch.resolve(tools.repo, row.branch)):
        branch.delete(tools.repo, row.branch, commit)
    tools.store.delete_run(row.run_id)
    remove.remove_tree(tools.layout.run(row.run_id).folder)
    return True


def _clear(tools: Tools, row: RunRow) -> None:
    """Remove what a run of the fleet uploaded, also what no row names."""
    kv = tools.store.kv(row.run_id)
    if queue.FLEET in kv:
        Shelf(queue.ticket_of(row, kv).artifacts).clear(archive.folder(row.run_id))


def _ids(rows: Sequence[RunRow]) -> tuple[str, ...]:
    return tuple(row.run_id for row in rows)
