"""At every start: bring the store and the run folders together, finish what a kill cut off."""

import hashlib
import time
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import cast

from treadle.agents import login
from treadle.contract import ROLES, Role, load_object
from treadle.contract.events import EventType, NewEvent
from treadle.engine import letters
from treadle.engine.elsewhere import archive, fleet_run
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.landing import move
from treadle.engine.lock import MAIL, WORKER, is_abandoned
from treadle.engine.recovery import repair
from treadle.engine.run import ceiling, memory, resume, run_files
from treadle.engine.run.run import Archive, Run, Tools, cursor_of
from treadle.engine.run.run_files import RECONCILED, Manifest, RunFile, Snapshot
from treadle.engine.wheel import commit, end
from treadle.errors import FormatError, GitError, TreadleError
from treadle.files import beneath, sync
from treadle.files.walk import names, read
from treadle.git import refs, remote
from treadle.ids import is_run_id, utc
from treadle.layout import INPUT_JSON, Layout, RunLayout, step_name
from treadle.proc import identity, sweep
from treadle.project import key
from treadle.store import fleet
from treadle.store.runs import Event, History, RunRow, StepRow
from treadle.tasks import claim

_MAX_INPUT = 64 << 20
_NOTHING: frozenset[str] = frozenset()
# Somebody who only looks at an ended run may be unpacking a step of it just now.
_OLD = 300.0
_TOLD_WITHIN = timedelta(minutes=1)


def recover(tools: Tools, dead: str | None) -> None:
    """Compare `runs/` with the store by names, and finish what dead processes left.

    `dead` names the process that was killed while it held the lock. Runs of others that live,
    another process or a worker, are never touched.
    """
    if dead is not None:
        login.clear_states(tools.env)
    _remove_unborn(tools.layout)
    repair.rebuild(tools.store, tools.layout, tools.now, tools.watch)
    gone = {dead, identity.current().encode()}  # this process drives nothing yet
    odd = _compare(tools)
    running = {row.run_id: row for row in tools.store.running()}
    others = (tools.store.run(run_id) for run_id in odd if run_id not in running)
    for row in (*running.values(), *filter(None, others)):
        if not _is_lost(tools, row, gone):
            _remove_staged(tools.layout.run(row.run_id), odd.get(row.run_id, set()), every=False)
            continue
        try:
            _recover_run(tools, row, odd.get(row.run_id, set()))
        except GitError as error:
            # One run that git refuses, say a branch the user has checked out, blocks no other.
            tools.note(row.run_id, f"not recovered: {error.message}")
    move.finish_moves(tools)
    _settle_ended(tools, gone)
    _exchange_letters(tools)
    claim.reconcile_runs(tools.store, tools.now())


def _is_lost(tools: Tools, row: RunRow, gone: set[str | None]) -> bool:
    """Tell whether a process that drove a run is gone.

    The fleet looks after the runs that wait for its workers, or are with them: here lie only
    copies of their steps, and what the store does not know of them may just have been fetched.
    """
    if row.owner is None and memory.recall(tools.store, row.run_id).is_of_fleet:
        return False
    return row.owner in gone or is_abandoned(row)


def _compare(tools: Tools) -> dict[str, set[str]]:
    """Return what lies among each run's steps and is no step that the store knows."""
    known, runs = tools.store.step_names(), str(tools.layout.runs)
    return {
        run_id: odd
        for run_id in names(runs)
        if (odd := set(names(f"{runs}/{run_id}/steps")) - known.get(run_id, _NOTHING))
    }


def _recover_run(tools: Tools, row: RunRow, odd: set[str]) -> None:
    """Take over what is finished, remove what is not, and stop a run that nobody drives."""
    was_running = row.status == "running"
    if was_running:
        sweep.end(sweep.mark(tools.layout.run(row.run_id).folder))
    _remove_staged(tools.layout.run(row.run_id), odd, every=was_running)
    missing = sorted(filter(_is_step, odd))
    if not missing and not was_running:
        return
    try:
        run = _take_over(tools, row, missing)
    except FormatError as error:
        _give_up(tools, row, error.message)
        return
    for name in _unknown_steps(run):
        _adopt_folder(run, name)
    if run.row.status == "running":
        _stop(run, row.claim_epoch)
    end.end_run(run)


def _take_over(tools: Tools, row: RunRow, missing: list[str]) -> Run:
    """Become the owner; a run of which the store lacks more than its last step is read back."""
    if not _is_behind(tools, row, missing):
        return resume.take_over(tools, row)
    folder = tools.layout.run(row.run_id)
    row = repair.read_back(tools.store, folder, run_files.read_run(folder.run_json), tools.now())
    run = resume.take_over(tools, row)
    unknown = _unknown_steps(run)
    run.record(*(_reconciled(name) for name in missing if name not in unknown))
    return run


def _is_behind(tools: Tools, row: RunRow, missing: list[str]) -> bool:
    """Tell an older store from a kill between the rename of a step and its transaction."""
    try:
        found, _ = run_files.read_step(tools.layout.run(row.run_id).steps / missing[0])
    except (FormatError, IndexError):
        return len(missing) > 1
    first = found.events[0].seq if found.events else 0
    expected = row.current_step_index + 1, tools.store.last_seq(row.run_id) + 1
    return len(missing) > 1 or (found.row.step_index, first) != expected


def _settle_ended(tools: Tools, gone: set[str | None]) -> None:
    """Tell the world of runs that ended in the very moment in which their process was killed."""
    for row in tools.store.unsettled():
        if row.owner in gone or (row.owner != MAIL and is_abandoned(row)) or _is_left(tools, row):
            try:
                fleet_run.bring_here(tools, row)
                run = resume.take_over(tools, row)
            except TreadleError as error:
                tools.note(row.run_id, f"nobody is told yet that it has ended: {error.message}")
                continue
            end.end_run(run)


def _is_left(tools: Tools, row: RunRow) -> bool:
    """Tell whether a worker had long enough to tell everybody of its run's end, and has not."""
    late = utc(tools.now() - _TOLD_WITHIN)
    is_theirs = (row.owner or "").startswith(WORKER) and (row.ended_at or late) < late
    return is_theirs and not memory.is_queued(row, memory.recall(tools.store, row.run_id))


def _exchange_letters(tools: Tools) -> None:
    """Send what ended runs of other machines left, and hand over what is new to those at work."""
    for row in tools.store.unsettled():
        if row.owner == MAIL:
            try:
                fleet_run.bring_here(tools, row)
                letters.tell(resume.load_run(tools, row))
            except TreadleError as error:
                tools.note(row.run_id, f"its letters are not sent yet: {error.message}")
    for row in chain(*fleet.runs(tools.store)[:2]):
        if row.task_id:
            letters.hand_over(tools.store, tools.layout.mail, row)


def _stop(run: Run, epoch: int) -> None:
    reason = "the process that drove this run was killed"
    message = f"{reason} after step {run.row.current_step_index}"
    event = NewEvent(EventType.RUN_INTERRUPTED, message)
    ended = run.cursor(status="stopped", ended_at=utc(run.tools.now()))
    lost = ceiling.left_behind(run, epoch)
    spent = {"spent": ceiling.with_rows(run.spent, lost)} if lost else {}
    run.record(event, cursor=ended, usage=lost, reason_code="interrupted", reason=reason, **spent)


def _reconciled(step: str) -> NewEvent:
    return NewEvent(EventType.RECONCILED_STEP, RECONCILED, {"step": step})


def _adopt_folder(run: Run, name: str) -> None:
    """Insert the row that a committed folder is missing."""
    folder = run.folder.steps / name
    try:
        found, digest = run_files.read_step(folder)
    except FormatError:
        found, digest = _minimal(run, folder), None
    problem = _bring_branch(run, found)
    told = run.events([_reconciled(name)], found.events)
    row = run.row._replace(**found.cursor._asdict())
    run.recorded.extend(told)
    kept = memory.encode(memory.apply(run.memory, found.kv))
    run_files.write_run(run.folder.run_json, RunFile(run.order, row, run.recorded, kept))
    commit.settle(run, found._replace(events=(*found.events, *told)), digest)
    commit.stand_still(run, problem)


def _minimal(run: Run, folder: Path) -> Manifest:
    """Describe a folder whose intent cannot be read: failed, without guessing a verdict."""
    iteration, started_at = _from_input(folder, run)
    index, role, here = int(folder.name[:3]), folder.name[4:], Snapshot(run.head, run.tree)
    row = StepRow(
        run_id=run.id,
        step_index=index,
        role=cast("Role", role),
        iteration=iteration,
        status="fail",
        step_dir=run.tools.layout.relative(folder),
        started_at=started_at,
        before_commit=run.head,
        after_commit=run.head,
        tree=run.tree,
    )
    return Manifest(row, run.cursor(current_step_index=index), here, here)


def _from_input(folder: Path, run: Run) -> tuple[int, str]:
    fallback = run.row.iteration, utc(run.tools.now())
    path = folder / INPUT_JSON
    try:
        body = load_object(read(path, max_bytes=_MAX_INPUT), source=INPUT_JSON)
        started = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (FormatError, OSError):
        return fallback
    step = body.get("step")
    iteration = step.get("iteration") if isinstance(step, dict) else None
    return (iteration if isinstance(iteration, int) else fallback[0]), utc(started)


def _unknown_steps(run: Run) -> list[str]:
    known = {row.step_index for row in run.tools.store.steps(run.id)}
    found = sorted(names(run.folder.steps))
    return [name for name in found if _is_step(name) and int(name[:3]) not in known]


def _is_step(name: str) -> bool:
    return name[:3].isdigit() and name[3:4] == "-" and name[4:] in ROLES


def _remove_unborn(layout: Layout) -> None:
    """Remove folders of runs that a kill kept from beginning, or from being forgotten."""
    for name in names(layout.runs):
        if name.startswith(".") and is_run_id(name[1:]):
            beneath.remove_tree(layout.runs / name)


def _remove_staged(folder: RunLayout, odd: set[str], *, every: bool) -> None:
    """Remove the temporary folders of dead steps; others only if they are old."""
    for path in (folder.steps / name for name in odd if ".tmp-" in name):
        if every or time.time() - path.stat().st_mtime > _OLD:
            beneath.remove_tree(path)


def _give_up(tools: Tools, row: RunRow, why: str) -> None:
    """Fail a run whose run.json cannot be read, so that it stands in nobody's way."""
    if row.status != "running":
        tools.note(row.run_id, f"not recovered: {why}")
        return
    epoch = tools.store.take_over(row.run_id, identity.current().encode())
    now = utc(tools.now())
    message = f"run.json cannot be read: {why}"
    event = Event(tools.store.last_seq(row.run_id) + 1, now, EventType.RUN_FAILED, message)
    cursor = cursor_of(row, status="failed", ended_at=now)
    kv = {"reason_code": "run_file_damaged", "reason": message}
    tools.store.advance(row.run_id, History(events=(event,), kv=kv), cursor, epoch)


def adopt_uploaded(run: Run, shelf: Shelf) -> bool:
    """Commit the step that an earlier owner left, if it is whole and the very next one."""
    prefix = f"{archive.folder(run.id)}{step_name(run.row.current_step_index + 1, '')}"
    return any(_adopt_archive(run, shelf, name) for name in reversed(shelf.names(prefix)))


def _adopt_archive(run: Run, shelf: Shelf, name: str) -> bool:
    data = shelf.get(name)
    staged = run.folder.steps / f"{name.rpartition('/')[2]}.tmp-adopted"
    try:
        body = archive.opened(data, archive.step_of(name), key.read(run.tools.env))
        archive.unpack(body, staged)
        found, digest = run_files.read_step(staged)
        pack = archive.held(body)
    except FormatError as error:
        refused = {"archive": name, "code": error.code}
        run.record(NewEvent(EventType.ARCHIVE_REFUSED, error.message, refused))
        beneath.remove_tree(staged)
        return False
    row = found.row
    step = archive.of_step(row.run_id, row.step_index, row.role)
    if found.before.commit != run.head or step != archive.step_of(name):
        beneath.remove_tree(staged)
        return False
    if pack:
        remote.unpack(run.tools.repo, pack)
    sync.rename_new(staged, run.folder.step(found.row.step_index, found.row.role))
    problem = _bring_branch(run, found)
    sealed = Archive(name, hashlib.sha256(data).hexdigest())
    # The step's events come behind what the timeline has had since.
    told = [NewEvent(EventType(it.type), it.message, it.data or {}) for it in found.events]
    events = run.events([*told, _reconciled(row.step_dir)])
    commit.settle(run, found._replace(events=events), digest, sealed)
    commit.stand_still(run, problem)
    return True


def _bring_branch(run: Run, found: Manifest) -> GitError | None:
    """Bring the run's branch to the step's commit; a fresh clone does not have it yet."""
    name = run.row.branch or ""
    if name and refs.resolve(run.tools.repo, name) is None:
        refs.create(run.tools.repo, name, found.before.commit)
    return commit.move_branch(run, found.before, found.after)
