"""Make a run's folder from the store and its archives, on a machine that never saw the run."""

import contextlib

from treadle.engine import archive, manifest, queue, runfile
from treadle.engine.archive import Shelf
from treadle.engine.order import Order
from treadle.errors import FormatError, TreadleError
from treadle.files import atomic, remove
from treadle.git import remote
from treadle.git.repo import Repo
from treadle.layout import Layout
from treadle.store.reader import Reader
from treadle.store.rows.run import RunRow


def look(layout: Layout, store: Reader, row: RunRow) -> None:
    """Bring a run of the fleet here for whoever wants to see its files; any other run stays."""
    kv = store.kv(row.run_id)
    if queue.FLEET not in kv:
        return
    gone = any(archive.missing(layout, store.steps(row.run_id)))
    if gone or not layout.run(row.run_id).run_json.exists():
        restore(layout, store, row, queue.order_of(row, kv))


def peek(layout: Layout, store: Reader, row: RunRow) -> None:
    """Look, if it can be had: a page without its files is better than none."""
    with contextlib.suppress(TreadleError):
        look(layout, store, row)


def fetch(layout: Layout, store: Reader, row: RunRow) -> None:
    """Bring the folders of a run's committed steps here; those that are here stay."""
    wanted = list(archive.missing(layout, store.steps(row.run_id)))
    if not wanted:
        return
    shelf = Shelf(queue.ticket_of(row, store.kv(row.run_id)).artifacts)
    for step, found in wanted:
        target = layout.root / step.step_dir
        staged = target.with_name(f"{target.name}.tmp-fetched")
        remove.remove_tree(staged)
        archive.fetch(shelf, found, staged)
        atomic.rename_new(staged, target)


def here(layout: Layout, store: Reader, repo: Repo, row: RunRow) -> None:
    """Bring a run of the fleet to the project's own machine, for whoever lands or resumes it."""
    kv = store.kv(row.run_id)
    if queue.FLEET in kv:
        bring_commit(repo, store, row)
        restore(layout, store, row, queue.order_of(row, kv))


def restore(layout: Layout, store: Reader, row: RunRow, order: Order) -> None:
    """Make the whole folder, as if the run had always worked here."""
    folder = layout.run(row.run_id)
    folder.steps.mkdir(parents=True, exist_ok=True)
    folder.live.mkdir(exist_ok=True)
    fetch(layout, store, row)
    told = {event.seq for name in _steps(layout, store, row) for event in name.events}
    events = [event for event in store.events(row.run_id) if event.seq not in told]
    atomic.write(folder.spec, order.text.encode() + b"\n")
    runfile.write(folder.run_json, order, row, events, store.kv(row.run_id))


def bring_commit(repo: Repo, store: Reader, row: RunRow) -> None:
    """See to it that the run's head can be read in `repo`, from its archives if need be."""
    head = row.head_commit or row.base_commit or ""
    if remote.has(repo, head):
        return
    shelf = Shelf(queue.ticket_of(row, store.kv(row.run_id)).artifacts)
    for step in store.steps(row.run_id):
        if step.archive and step.after_commit != step.before_commit:
            pack = archive.held(shelf.get(step.archive))
            if pack and not remote.has(repo, step.after_commit or ""):
                remote.unpack(repo, pack)
    if not remote.has(repo, head):
        raise FormatError(
            f"run {row.run_id}: commit {head[:12]} is neither in the repository nor in an archive",
            code="commit_missing",
            fix=["git fetch"],
        )


def _steps(layout: Layout, store: Reader, row: RunRow) -> list[manifest.Manifest]:
    return [
        manifest.read(layout.root / step.step_dir)[0]
        for step in store.steps(row.run_id)
        if step.digest
    ]
