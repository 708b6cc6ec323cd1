"""After a crash: finish what was finished, forget what was not, say what happened."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from treadle.agents import state
from treadle.contract import strictjson
from treadle.contract.event import EventType
from treadle.contract.role import ROLES, Role
from treadle.engine import (
    aftermath,
    commit,
    intent,
    letters,
    load,
    manifest,
    rebuild,
    runfile,
)
from treadle.engine.lock import MAIL, is_abandoned
from treadle.engine.manifest import Manifest, Snapshot
from treadle.engine.progress import Progress
from treadle.engine.run import Run, Tools, cursor_of
from treadle.engine.timeline import Timeline
from treadle.errors import FormatError, GitError, TreadleError
from treadle.files import remove
from treadle.files.walk import names, read
from treadle.ids import utc
from treadle.layout import Layout
from treadle.proc import identity, sweep
from treadle.store import fleet
from treadle.store.runs import Event, RunRow, StepRow
from treadle.tasks import claim

# The contract's own sentence.
RECONCILED = "Step dir exists but DB record was missing; inserted during recovery"
_MAX_INPUT = 64 << 20
_NOTHING: frozenset[str] = frozenset()


class Recovered(NamedTuple):
    """What recovery did."""

    runs: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def recover(tools: Tools, dead: str | None) -> Recovered:
    """Bring the store and the run folders together.

    After a clean stop only runs that still claim to be running are looked at; after a
    kill, when `dead` names the killed process, every run folder is.
    """
    if dead is not None:
        state.clear(tools.env)
        _remove_unborn(tools.layout)
        rebuild.rebuild(tools.store, tools.layout, tools.now, tools.watch)
    rows = {row.run_id: row for row in tools.store.running() if is_abandoned(row, dead)}
    if dead is not None:
        for run_id in _suspects(tools) - set(rows):
            if row := tools.store.run(run_id):
                rows[run_id] = row
    steps: list[str] = []
    for row in rows.values():
        try:
            steps += _recover_run(tools, row)
        except GitError as error:
            # One run that git refuses, say a branch the user has checked out, blocks no other.
            message = f"not recovered: {error.message}"
            tools.watch(Progress(kind="note", run_id=row.run_id, message=message))
    if dead is not None:
        intent.settle_all(tools)
        _settle_ended(tools, dead)
    _exchange_letters(tools)
    claim.reconcile_runs(tools.store, tools.now())
    return Recovered(tuple(sorted(rows)), tuple(steps))


def _settle_ended(tools: Tools, dead: str) -> None:
    """Tell the world of runs that ended in the very moment in which their process was killed."""
    for row in tools.store.unsettled():
        if is_abandoned(row, dead):
            try:
                run = load.take_over(tools, row)
            except (FormatError, GitError):
                continue
            letters.catch_up(run)
            aftermath.settle(run)


def _exchange_letters(tools: Tools) -> None:
    """Send what ended runs of other machines left, and hand over what is new to those at work."""
    for row in tools.store.unsettled():
        if row.owner == MAIL:
            try:
                letters.tell(load.load(tools, row))
            except TreadleError as error:
                message = f"its letters are not sent yet: {error.message}"
                tools.watch(Progress(kind="note", run_id=row.run_id, message=message))
    for row in (*fleet.queued(tools.store), *fleet.held(tools.store)):
        if row.task_id:
            letters.hand_over(tools.store, tools.layout.mail, row)


def _suspects(tools: Tools) -> set[str]:
    """Return the runs with a step folder that the store does not know, or a temporary one."""
    known = tools.store.step_names()
    runs = str(tools.layout.runs)
    return {
        run_id
        for run_id in names(runs)
        if not known.get(run_id, _NOTHING).issuperset(names(f"{runs}/{run_id}/steps"))
    }


def _recover_run(tools: Tools, row: RunRow) -> list[str]:
    sweep.end(sweep.mark(tools.layout.run(row.run_id).folder))
    _remove_staged(tools.layout, row.run_id)
    try:
        run = load.take_over(tools, row)
    except FormatError as error:
        _give_up(tools, row, error.message)
        return []
    steps = _unknown_steps(run)
    for name in steps:
        _adopt(run, name)
    letters.catch_up(run)
    if run.row.status == "running":
        _stop(run)
    tools.store.release(run.id, run.row.claim_epoch)
    return [f"{run.id}/{name}" for name in steps]


def _stop(run: Run) -> None:
    reason = "the process that drove this run was killed"
    message = f"{reason} after step {run.row.current_step_index}"
    run.timeline.add(EventType.RUN_INTERRUPTED, message)
    ended = run.cursor(status="stopped", ended_at=utc(run.tools.now()))
    run.record(ended, {"reason_code": "interrupted", "reason": reason})


def _adopt(run: Run, name: str) -> None:
    """Insert the row that a committed folder is missing."""
    folder = run.folder.steps / name
    try:
        found, digest = manifest.read(folder)
    except FormatError:
        found, digest = _minimal(run, folder), None
    moved = found.after.commit == found.before.commit or commit.move_branch(
        run, found.before, found.after
    )
    last = found.events[-1].seq if found.events else run.tools.store.last_seq(run.id)
    run.timeline = Timeline(last, run.tools.now, run.tools.mask)
    run.timeline.add(EventType.RECONCILED_STEP, RECONCILED, step=name)
    told = run.timeline.take()
    row = run.row._replace(**found.cursor._asdict())
    run.recorded.extend(told)
    runfile.write(run.folder.run_json, run.order, row, run.recorded, {**run.kv, **found.kv})
    commit.settle(run, found._replace(events=(*found.events, *told)), digest)
    if not moved:
        commit.lost_branch(run)


def _minimal(run: Run, folder: Path) -> Manifest:
    """Describe a folder whose intent cannot be read: failed, without guessing a verdict."""
    iteration, started_at = _from_input(folder, run)
    index = int(folder.name[:3])
    row = StepRow(
        run_id=run.id,
        step_index=index,
        role=_role(folder.name),
        iteration=iteration,
        status="fail",
        step_dir=run.tools.layout.relative(folder),
        started_at=started_at,
        before_commit=run.head,
        after_commit=run.head,
        tree=run.tree,
    )
    here = Snapshot(run.head, run.tree)
    return Manifest(
        row=row,
        events=(),
        cursor=run.cursor(current_step_index=index),
        kv={},
        before=here,
        after=here,
        usage=None,
        checks=(),
        files={},
    )


def _from_input(folder: Path, run: Run) -> tuple[int, str]:
    fallback = run.row.iteration, utc(run.tools.now())
    path = folder / "input.json"
    try:
        body = strictjson.load_object(read(path, max_bytes=_MAX_INPUT), source="input.json")
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


def _role(name: str) -> Role:
    return next(role for role in ROLES if role == name[4:])


def _remove_unborn(layout: Layout) -> None:
    """Remove folders of runs that a kill kept from beginning."""
    for name in names(layout.runs):
        if name.startswith("."):
            remove.remove_tree(layout.runs / name)


def _remove_staged(layout: Layout, run_id: str) -> None:
    steps = layout.run(run_id).steps
    for name in names(steps):
        if ".tmp-" in name:
            remove.remove_tree(steps / name)


def _give_up(tools: Tools, row: RunRow, why: str) -> None:
    """Fail a run whose run.json cannot be read, so that it stands in nobody's way."""
    epoch = tools.store.take_over(row.run_id, identity.current().encode())
    now = utc(tools.now())
    message = f"run.json cannot be read: {why}"
    event = Event(tools.store.last_seq(row.run_id) + 1, now, EventType.RUN_FAILED, message)
    cursor = cursor_of(row, status="failed", ended_at=now)
    kv = {"reason_code": "run_file_damaged", "reason": message}
    tools.store.record(row.run_id, (event,), cursor, kv, epoch)
