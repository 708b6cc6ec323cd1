"""Believe the run folders: bring back what the store lost, mend rows that contradict them."""

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import UNSET, structs

from treadle.contract import Criterion
from treadle.contract.events import EventType, NewEvent
from treadle.engine.elsewhere import fleet_run
from treadle.engine.lock import MAIL, WORKER
from treadle.engine.run import comments, memory, resume, run_files
from treadle.engine.run.memory import Progress, Watch
from treadle.engine.run.order import MessageOrder, Order
from treadle.engine.run.run import Tools
from treadle.engine.run.run_files import Manifest, RunFile
from treadle.engine.show import view
from treadle.errors import FormatError
from treadle.files import walk
from treadle.ids import is_run_id, utc
from treadle.layout import Layout, RunLayout
from treadle.store.messages import MessageRow
from treadle.store.runs import Event, History, RunRow
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, task

# What a message's row and its run's order have in common.
_KEPT = ("chain", "seq", "routine", "spec", "spec_digest", "digest", "parent", "depth")


def rebuild(store: Store, layout: Layout, now: Callable[[], datetime], watch: Watch) -> None:
    """Insert every run of `runs/` that the store does not know, and the tasks of those runs."""
    known = set(store.run_ids())
    for run_id in sorted(set(filter(is_run_id, walk.names(layout.runs))) - known):
        folder = layout.run(run_id)
        try:
            found = run_files.read_run(folder.run_json)
        except FormatError as error:
            watch(Progress(kind="note", run_id=run_id, message=f"not rebuilt: {error.message}"))
            continue
        row = read_back(store, folder, found, now())
        _restore_task(store, found.order, row, now())
        if found.order.message:
            refused = memory.recall(store, run_id).land_refused is not None
            store.restore_message(message_row(found.order.message, row, refused))


def read_back(store: Store, folder: RunLayout, found: RunFile, now: datetime) -> RunRow:
    """Lay what a run's folder says over what the store knows of it, and return the run's row."""
    run_id, steps = folder.folder.name, _manifests(folder)
    row, kv = _latest(found, [step for step, _ in steps])
    if known := store.run(run_id):
        row = row._replace(claim_epoch=max(row.claim_epoch, known.claim_epoch))
    files = (*found.events, *(event for step, _ in steps for event in step.events))
    told = {event.seq: event for event in (*files, *store.events(run_id))}
    text = "rebuilt from the run's folder"
    note = Event(max(told, default=0) + 1, utc(now), EventType.STORE_REBUILT, text)
    own = [event for event in found.events if told[event.seq] == event]
    run_files.write_run(folder.run_json, RunFile(found.order, row, (*own, note), kv))
    history = _laid_over(store, run_id, steps)
    kv = {**history.kv, **kv, **comments.kept(folder)}
    store.restore(row, history._replace(events=(*sorted(told.values()), note), kv=kv))
    return row


def repair(tools: Tools) -> list[str]:
    """Mend every run whose rows and folders disagree, but none that a worker has; return ids."""
    ours = (it for it in view.every_run(tools.store) if not (it.owner or "").startswith(WORKER))
    rows = [row for row in ours if resume.mismatches(tools, row)]
    for row in rows:
        _mend(tools, row)
    return [row.run_id for row in rows]


def _mend(tools: Tools, row: RunRow) -> None:
    """Believe an intact folder; where it is damaged the row stands, without a digest."""
    store, folder = tools.store, tools.layout.run(row.run_id)
    store.restore(row, _laid_over(store, row.run_id, _manifests(folder)))
    try:
        fleet_run.bring_here(tools, row)
        run = resume.take_over(tools, row)
    except FormatError as error:
        tools.note(row.run_id, f"only its rows are left: {error.message}")
        return
    run.record(NewEvent(EventType.ROW_MISMATCH, "mended by doctor --repair"))
    store.release(run.id, run.row.claim_epoch, MAIL if row.owner == MAIL else None)


def _laid_over(store: Store, run_id: str, intact: Sequence[tuple[Manifest, str]]) -> History:
    """Return a run's history with its intact steps as their folders have them.

    Of a step whose folder is damaged the row stands, without a digest; where a step was archived
    only the store knows.
    """
    known = {step.step_index: step for step in store.steps(run_id)}
    steps = {index: step._replace(digest=None) for index, step in known.items()}
    for found, digest in intact:
        old = known.get(found.row.step_index, found.row)
        steps[found.row.step_index] = found.row._replace(
            digest=digest, archive=old.archive, archive_sha256=old.archive_sha256
        )
    proven = {found.row.step_index for found, _ in intact}
    usage = [item for item in store.usage(run_id) if item.step_index not in proven]
    checks = [item for item in store.checks(run_id) if item.step_index not in proven]
    return History(
        steps=[steps[index] for index in sorted(steps)],
        events=store.events(run_id),
        kv=store.kv(run_id),
        usage=[*usage, *(item for found, _ in intact for item in found.usage)],
        checks=[*checks, *(check for found, _ in intact for check in found.checks)],
    )


def _manifests(folder: RunLayout) -> list[tuple[Manifest, str]]:
    """Read the intact step folders; recovery deals with the others afterwards."""
    found = []
    for path in sorted(folder.steps.glob("[0-9][0-9][0-9]-*")):
        with contextlib.suppress(FormatError):
            if ".tmp-" not in path.name:
                found.append(run_files.read_step(path))
    return found


def _latest(found: RunFile, steps: list[Manifest]) -> tuple[RunRow, dict[str, object]]:
    """Lay the steps that came after run.json was written over it."""
    row, kv = found.row, dict(found.kv)
    written = max((event.seq for event in found.events), default=0)
    for step in steps:
        if step.events and step.events[-1].seq > written:
            row = row._replace(**step.cursor._asdict())
            kv.update(step.kv)
    return row, kv


def _restore_task(store: Store, order: Order, row: RunRow, now: datetime) -> None:
    """Bring back the task a run was for, as the run left it."""
    if task_id := bring_task(store, order, now):
        claim.begin_run(store, task_id, row.run_id, now)
        claim.finish_run(store, row, now)


def bring_task(store: Store, order: Order, now: datetime) -> str | None:
    """Bring back a task that is missing, as its run remembers it, and return its id."""
    if order.task_id is None or store.task(order.task_id):
        return None
    criteria = tuple(
        Criterion(item.id, item.text, None if item.verify is UNSET else item.verify)
        for item in order.criteria
    )
    text = order.text if order.text != order.goal else None
    task.add(store, TaskRow(order.task_id, order.goal, text, criteria), now)
    return order.task_id


def message_row(message: MessageOrder, row: RunRow, refused: bool) -> MessageRow:
    """Return the message that a run carried out, as far as the run knows."""
    return MessageRow(
        message_id=message.id,
        status="waiting" if row.status != "passed" else "refused" if refused else "done",
        run_ids=(row.run_id,),
        reason=None,
        created_at=row.created_at,
        updated_at=row.created_at,
        **{name: value for name, value in structs.asdict(message).items() if name in _KEPT},
    )
