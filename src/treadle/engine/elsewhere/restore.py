"""Make a run's folder from the store and its archives, on a machine that never saw the run."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from treadle.contract.role import ROLES
from treadle.engine.elsewhere import archive, queue
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.run import run_files
from treadle.engine.run.order import Order
from treadle.engine.run.run import Tools
from treadle.engine.run.run_files import Manifest
from treadle.errors import FormatError, TreadleError
from treadle.files import atomic, remove, sync
from treadle.git import remote
from treadle.git.repo import Repo
from treadle.layout import Layout
from treadle.project import key as keys
from treadle.project.key import FleetKey
from treadle.store.runs import RunRow, StepRow
from treadle.store.store import Reader


def look(layout: Layout, store: Reader, row: RunRow, env: Mapping[str, str] = os.environ) -> None:
    """Bring a run of the fleet here for whoever wants to see its files; any other run stays."""
    kv = store.kv(row.run_id)
    if queue.FLEET not in kv:
        return
    gone = any(archive.missing(layout, store.steps(row.run_id)))
    if gone or not layout.run(row.run_id).run_json.exists():
        key = keys.read(env, layout.root)
        restore(layout, store, row, queue.order_of(row, kv, key), key)


def peek(layout: Layout, store: Reader, row: RunRow) -> None:
    """Look, if it can be had: a page without its files is better than none."""
    with contextlib.suppress(TreadleError):
        look(layout, store, row)


def fetch(layout: Layout, store: Reader, row: RunRow, env: Mapping[str, str] = os.environ) -> None:
    """Bring the folders of a run's committed steps here; those that are here stay."""
    if any(archive.missing(layout, store.steps(row.run_id))):
        _fetch(layout, store, row, keys.read(env, layout.root))


def bring_here(tools: Tools, row: RunRow) -> None:
    """Bring a run of the fleet to the project's own machine, for whoever lands or resumes it."""
    kv = tools.store.kv(row.run_id)
    if queue.FLEET in kv and row.status != "running":
        key = keys.read(tools.env, tools.layout.root)
        order = queue.order_of(row, kv, key)
        bring_commit(tools.repo, tools.store, row, key)
        restore(tools.layout, tools.store, row, order, key)


def restore(layout: Layout, store: Reader, row: RunRow, order: Order, key: FleetKey) -> None:
    """Make the whole folder, as if the run had always worked here."""
    steps = store.steps(row.run_id)
    for step in steps:
        _require_place(layout, step)
    folder = layout.run(row.run_id)
    folder.steps.mkdir(parents=True, exist_ok=True)
    folder.live.mkdir(exist_ok=True)
    _fetch(layout, store, row, key)
    told = {event.seq for found in _proven(layout, row, steps) for event in found.events}
    events = [event for event in store.events(row.run_id) if event.seq not in told]
    atomic.write(folder.spec, order.text.encode() + b"\n")
    run_files.write_run(folder.run_json, order, row, events, store.kv(row.run_id))


def bring_commit(repo: Repo, store: Reader, row: RunRow, key: FleetKey) -> None:
    """See to it that the run's head can be read in `repo`, from its archives if need be."""
    head = row.head_commit or row.base_commit or ""
    if remote.has(repo, head):
        return
    shelf = Shelf(queue.ticket_of(row, store.kv(row.run_id), key).artifacts)
    for step in store.steps(row.run_id):
        if step.archive and step.after_commit != step.before_commit:
            pack = archive.held(archive.read(shelf, step, key))
            if pack and not remote.has(repo, step.after_commit or ""):
                remote.unpack(repo, pack)
    if not remote.has(repo, head):
        raise FormatError(
            f"run {row.run_id}: commit {head[:12]} is neither in the repository nor in an archive",
            code="commit_missing",
            fix=["git fetch"],
        )


def _fetch(layout: Layout, store: Reader, row: RunRow, key: FleetKey) -> None:
    wanted = list(archive.missing(layout, store.steps(row.run_id)))
    if not wanted:
        return
    shelf = Shelf(queue.ticket_of(row, store.kv(row.run_id), key).artifacts)
    for step in wanted:
        target = _require_place(layout, step)
        staged = target.with_name(f"{target.name}.tmp-fetched")
        remove.remove_tree(staged)
        archive.fetch(shelf, step, key, staged)
        sync.rename_new(staged, target)


def _require_place(layout: Layout, step: StepRow) -> Path:
    """Return where a step's folder belongs, which its row must not say otherwise."""
    place = layout.run(step.run_id).step(step.step_index, step.role)
    if step.role not in ROLES or step.step_dir != layout.relative(place):
        raise _changed(step.run_id, f"step {step.step_index} is recorded in {step.step_dir!r}")
    return place


def _proven(layout: Layout, row: RunRow, steps: Sequence[StepRow]) -> list[Manifest]:
    """Return what the steps say of themselves; FormatError where rows say anything else.

    Who can write to the store can change rows, but not the signed archives of the steps: those
    must lead from the signed base to the head, and the last one must have passed a run that has.
    """
    found, at, status = [], row.base_commit, None
    for step in steps:
        proof = _of_row(layout, step) if step.digest else None
        before = proof.before.commit if proof else step.before_commit
        if before != at or (proof is None and step.after_commit != at):
            raise _changed(row.run_id, f"step {step.step_index} does not begin and end as it says")
        if proof:
            at, status = proof.after.commit, proof.cursor.status
            found.append(proof)
    last = steps[-1].step_index if steps else 0
    if (row.head_commit or row.base_commit, row.current_step_index) != (at, last):
        raise _changed(row.run_id, f"its head is not where step {last} left it")
    if row.status == "passed" and status != "passed":
        raise _changed(row.run_id, "no step of it has passed")
    return found


def _of_row(layout: Layout, step: StepRow) -> Manifest:
    try:
        return run_files.read_committed(layout.root / step.step_dir, step)
    except FormatError as error:
        raise _changed(step.run_id, f"step {step.step_index}: {error.message}") from error


def _changed(run_id: str, what: str) -> FormatError:
    return FormatError(
        f"run {run_id}: the store contradicts the archives of its steps: {what}",
        code="row_forged",
        fix=[f"treadle runs show {run_id}"],
    )
