"""Rebuild what the store knew of runs from their folders."""

from collections.abc import Callable
from datetime import datetime

from msgspec import UNSET

from treadle.contract.criterion import Criterion
from treadle.contract.event import EventType
from treadle.engine import manifest, runfile
from treadle.engine.manifest import Manifest
from treadle.engine.order import MessageOrder, Order
from treadle.engine.progress import Progress, Watch
from treadle.engine.runfile import RunFile
from treadle.errors import FormatError
from treadle.files import walk
from treadle.ids import is_run_id, utc
from treadle.layout import Layout, RunLayout
from treadle.store.messages import MessageRow
from treadle.store.runs import Event, History, RunRow
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
    found = runfile.read(folder.run_json)
    steps = _manifests(folder)
    events = sorted((*found.timeline(), *(event for step in steps for event in step[0].events)))
    row, kv = _latest(found, [step for step, _ in steps])
    last = events[-1].seq if events else 0
    told = Event(last + 1, utc(now()), EventType.STORE_REBUILT, "rebuilt from the run's folder")
    runfile.write(folder.run_json, found.order, row, (*found.timeline(), told), kv)
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
            found.append(manifest.read(path))
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
