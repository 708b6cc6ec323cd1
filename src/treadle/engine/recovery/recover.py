"""After a crash: finish what was finished, forget what was not, say what happened."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import UNSET

from treadle.agents import login
from treadle.contract import strictjson
from treadle.contract.criterion import Criterion
from treadle.contract.event import EventType
from treadle.contract.role import ROLES, Role
from treadle.engine import letters
from treadle.engine.landing import move
from treadle.engine.lock import MAIL, is_abandoned
from treadle.engine.run import resume, run_files
from treadle.engine.run.order import MessageOrder, Order
from treadle.engine.run.progress import Progress, Watch
from treadle.engine.run.run import Run, Timeline, Tools, cursor_of, lost_branch
from treadle.engine.run.run_files import Manifest, RunFile, Snapshot
from treadle.engine.wheel import commit, end
from treadle.errors import FormatError, GitError, TreadleError
from treadle.files import remove, walk
from treadle.files.walk import names, read
from treadle.ids import is_run_id, utc
from treadle.layout import Layout, RunLayout
from treadle.proc import identity, sweep
from treadle.store import fleet
from treadle.store.messages import MessageRow
from treadle.store.runs import Event, History, RunRow, StepRow
from treadle.store.store import Store
from treadle.tasks import claim, task
from treadle.tasks.task import NewTask


def rebuild(store: Store, layout: Layout, now: Callable[[], datetime], watch: Watch) -> None:
    """Insert every run of `runs/` that the store does not know, and the tasks of those runs."""
    for run_id in _unknown(store, layout):
        try:
            _restore(store, layout.run(run_id), now)
        except FormatError as error:
            message = f"not rebuilt: {error.message}"
            watch(Progress(kind="note", run_id=run_id, message=message))


def _unknown(store: Store, layout: Layout) -> list[str]:
    known = set(store.run_ids())
    return sorted(set(filter(is_run_id, walk.names(layout.runs))) - known)


def _restore(store: Store, folder: RunLayout, now: Callable[[], datetime]) -> None:
    found = run_files.read_run(folder.run_json)
    steps = _manifests(folder)
    events = sorted((*found.timeline(), *(event for step in steps for event in step[0].events)))
    row, kv = _latest(found, [step for step, _ in steps])
    last = events[-1].seq if events else 0
    told = Event(last + 1, utc(now()), EventType.STORE_REBUILT, "rebuilt from the run's folder")
    run_files.write_run(folder.run_json, found.order, row, (*found.timeline(), told), kv)
    history = History(
        steps=[step.row._replace(digest=digest) for step, digest in steps],
        events=(*events, told),
        kv=kv,
        usage=[step.usage for step, _ in steps if step.usage],
        checks=[check for step, _ in steps for check in step.checks],
    )
    store.restore(row, history)
    _restore_task(store, found.order, row, now())
    if found.order.message:
        store.restore_message(_message_row(found.order.message, row, bool(kv.get("land_refused"))))


def _restore_task(store: Store, order: Order, row: RunRow, now: datetime) -> None:
    """Bring back the task a run was for; nothing else remembers it."""
    if order.task_id is None or store.task(order.task_id):
        return
    criteria = tuple(
        Criterion(item.id, item.text, None if item.verify is UNSET else item.verify)
        for item in order.criteria
    )
    text = order.text if order.text != order.goal else None
    task.add(store, NewTask(order.goal, criteria, order.task_id, text), now)
    claim.begin_run(store, order.task_id, row.run_id, now)
    claim.finish_run(store, order.task_id, row.run_id, row.status, now)


def _message_row(message: MessageOrder, row: RunRow, refused: bool) -> MessageRow:
    """Return the message that a run carried out, as far as the run knows."""
    return MessageRow(
        message_id=message.id,
        chain=message.chain,
        seq=message.seq,
        status="waiting" if row.status != "passed" else "refused" if refused else "done",
        routine=message.routine,
        spec=message.spec,
        spec_digest=message.spec_digest,
        digest=message.digest,
        parent=message.parent,
        depth=message.depth,
        run_ids=(row.run_id,),
        reason=None,
        created_at=row.created_at,
        updated_at=row.created_at,
    )


def _manifests(folder: RunLayout) -> list[tuple[Manifest, str]]:
    """Read the intact step folders; recovery deals with the others afterwards."""
    found = []
    for path in sorted(folder.steps.glob("[0-9][0-9][0-9]-*")):
        if ".tmp-" in path.name:
            continue
        try:
            found.append(run_files.read_step(path))
        except FormatError:
            continue
    return found


def _latest(found: RunFile, steps: list[Manifest]) -> tuple[RunRow, dict[str, object]]:
    """Lay the steps that came after run.json was written over it."""
    row, kv = found.run_row(), dict(found.kv)
    written = max((event.seq for event in found.timeline()), default=0)
    for step in steps:
        if step.events and step.events[-1].seq > written:
            row = row._replace(**step.cursor._asdict())
            kv.update(step.kv)
    return row, kv


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
        login.clear_states(tools.env)
        _remove_unborn(tools.layout)
        rebuild(tools.store, tools.layout, tools.now, tools.watch)
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
        move.finish_moves(tools)
        _settle_ended(tools, dead)
    _exchange_letters(tools)
    claim.reconcile_runs(tools.store, tools.now())
    return Recovered(tuple(sorted(rows)), tuple(steps))


def _settle_ended(tools: Tools, dead: str) -> None:
    """Tell the world of runs that ended in the very moment in which their process was killed."""
    for row in tools.store.unsettled():
        if is_abandoned(row, dead):
            try:
                run = resume.take_over(tools, row)
            except (FormatError, GitError):
                continue
            letters.catch_up(run)
            end.end_run(run)


def _exchange_letters(tools: Tools) -> None:
    """Send what ended runs of other machines left, and hand over what is new to those at work."""
    for row in tools.store.unsettled():
        if row.owner == MAIL:
            try:
                letters.tell(resume.load_run(tools, row))
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
        run = resume.take_over(tools, row)
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
        found, digest = run_files.read_step(folder)
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
    run_files.write_run(run.folder.run_json, run.order, row, run.recorded, {**run.kv, **found.kv})
    commit.settle(run, found._replace(events=(*found.events, *told)), digest)
    if not moved:
        lost_branch(run)


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
