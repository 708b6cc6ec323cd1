"""Runs of the fleet: they wait for a worker, their orders are signed, their folders come back."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from treadle.contract import ROLES, EventType, RunStatus
from treadle.engine.elsewhere import archive
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.lock import WORKER as WORKER
from treadle.engine.run import memory, run_files
from treadle.engine.run.memory import QUEUED
from treadle.engine.run.order import Order
from treadle.engine.run.run import Run, Tools, cursor_of
from treadle.engine.run.run_files import Manifest
from treadle.errors import FormatError, TreadleError
from treadle.files import atomic, beneath, sync
from treadle.git import remote
from treadle.git.repo import Repo
from treadle.ids import utc
from treadle.layout import Layout
from treadle.project import key as keys
from treadle.project.key import FleetKey
from treadle.store import fleet
from treadle.store.runs import Event, History, RunRow, StepRow
from treadle.store.store import Reader, Store

T = TypeVar("T")

ORDER = "order"
FLEET = memory.FLEET
SIGNATURE = "signature"
TRIES = "tries"
# What of a run's row its signature covers: all that stays as it was queued.
_SIGNED = (
    *("run_id", "created_at", "goal", "run_dir", "task_id", "message_id", "routine"),
    *("base_commit", "base_branch", "branch"),
)


class Ticket(Struct, frozen=True, kw_only=True):
    """What a worker must know of a run beyond its order."""

    project: str
    remote: str
    artifacts: str
    priority: int = 0
    fingerprint: str = ""


def is_queued(row: RunRow, kv: Mapping[str, object]) -> bool:
    """Tell whether a run waits for a worker."""
    return memory.is_queued(row, memory.decode(kv))


def is_claimable(row: RunRow, kv: Mapping[str, object]) -> bool:
    """Tell whether a worker may take a run: it waits, or its worker is gone."""
    return FLEET in kv and (is_queued(row, kv) or (row.owner or "").startswith(WORKER))


def insert(
    store: Store, row: RunRow, order: Order, ticket: Ticket, key: FleetKey, now: datetime
) -> None:
    """Write a run down that a worker shall drive."""
    message = f"waits for a worker of the fleet: {order.goal}"
    data = {"base_commit": row.base_commit, "criteria": list(order.ids), "remote": ticket.remote}
    event = Event(1, utc(now), EventType.RUN_QUEUED, message, data)
    kv = _waits("waits for a worker") | signed(row, order, ticket, key)
    store.insert_run(row, (event,), kv)


def signed(row: RunRow, order: Order, ticket: Ticket, key: FleetKey) -> dict[str, object]:
    """Return what the store keeps of an order, with the signature that workers ask for."""
    kv = {ORDER: msgspec.to_builtins(order), FLEET: msgspec.to_builtins(ticket)}
    return {**kv, SIGNATURE: key.sign(ORDER, _text(row, kv))}


def requeue(
    store: Store, row: RunRow, message: str, now: datetime, more: Mapping[str, object] | None = None
) -> RunRow | None:
    """Let a run wait for another worker; None when it is no longer as it was read."""
    epoch = fleet.claim(store, row, None)
    if epoch is None:
        return None
    row = row._replace(claim_epoch=epoch, owner=None)
    record(store, row, EventType.RUN_QUEUED, message, now, {**_waits(message), **(more or {})})
    return row


def give_back(run: Run, message: str) -> None:
    """Put a run that is being driven back into the queue."""
    run.timeline.add(EventType.RUN_QUEUED, message)
    waiting = run.cursor(status="stopped", ended_at=None)
    others = {key: value for key, value in run.memory.others.items() if key != TRIES}
    run.record(waiting, reason_code=QUEUED, reason=message, stop_requested=None, others=others)


def call_off(store: Store, row: RunRow, reason: str, now: datetime) -> bool:
    """Take a waiting run out of the queue; False when a worker was quicker."""
    epoch = fleet.claim(store, row, None)
    if epoch is None:
        return False
    kv = {"reason_code": "interrupted", "reason": reason}
    record(store, row._replace(claim_epoch=epoch), EventType.RUN_STOPPED, reason, now, kv)
    return True


def order_of(row: RunRow, kv: Mapping[str, object], key: FleetKey) -> Order:
    """Return what a run of the fleet was asked to do, if whoever queued it has the key."""
    _require_signed(row, kv, key)
    return _convert(row, kv, ORDER, Order)


def ticket_of(row: RunRow, kv: Mapping[str, object], key: FleetKey) -> Ticket:
    """Return where the repository and the archives of a run are, if its order is signed."""
    _require_signed(row, kv, key)
    return _convert(row, kv, FLEET, Ticket)


def priority_of(kv: Mapping[str, object]) -> int:
    """Return how urgent a run is; nothing else depends on it, so nobody need have signed it."""
    ticket = kv.get(FLEET)
    found = ticket.get("priority") if isinstance(ticket, dict) else None
    return found if isinstance(found, int) else 0


def _require_signed(row: RunRow, kv: Mapping[str, object], key: FleetKey) -> None:
    signature = kv.get(SIGNATURE)
    if signature and key.knows(signature, ORDER, _text(row, kv)):
        return
    why = (
        "was changed after it was queued, or signed with another key"
        if signature
        else "is not signed"
    )
    raise FormatError(
        f"run {row.run_id}: its order in the store {why}, so it is refused",
        code="order_forged" if signature else "order_unsigned",
        fix=["treadle fleet key", f"treadle runs show {row.run_id}"],
    )


def _text(row: RunRow, kv: Mapping[str, object]) -> str:
    """Return what is signed: the order and the ticket as the store has them, and of the row what
    never changes."""
    parts = [[getattr(row, name) for name in _SIGNED], kv.get(ORDER), kv.get(FLEET)]
    return msgspec.json.encode(parts, order="sorted").decode()


def _convert(row: RunRow, kv: Mapping[str, object], key: str, type_: type[T]) -> T:
    try:
        return msgspec.convert(kv.get(key), type_)
    except msgspec.ValidationError as error:
        raise FormatError(f"run {row.run_id}: its {key} in the store is wrong: {error}") from error


def _waits(message: str) -> dict[str, object]:
    return {"reason_code": QUEUED, "reason": message, "stop_requested": None}


def record(
    store: Store,
    row: RunRow,
    kind: EventType,
    message: str,
    now: datetime,
    kv: Mapping[str, object],
    status: RunStatus = "stopped",
) -> None:
    """Write down what happens to a run while no folder of it is here."""
    goes_on = status == "running" or kv.get("reason_code") == QUEUED
    cursor = cursor_of(row, status=status, ended_at=None if goes_on else utc(now))
    event = Event(store.last_seq(row.run_id) + 1, utc(now), kind, message)
    store.advance(row.run_id, History(events=(event,), kv=kv), cursor, row.claim_epoch)


def look(layout: Layout, store: Reader, row: RunRow, env: Mapping[str, str] = os.environ) -> None:
    """Bring a run of the fleet here for whoever wants to see its files; any other run stays."""
    kv = store.kv(row.run_id)
    if FLEET not in kv:
        return
    gone = any(archive.missing(layout, store.steps(row.run_id)))
    if gone or not layout.run(row.run_id).run_json.exists():
        key = keys.read(env, layout.root)
        restore(layout, store, row, order_of(row, kv, key), key)


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
    if FLEET in kv and row.status != "running":
        key = keys.read(tools.env, tools.layout.root)
        order = order_of(row, kv, key)
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
    shelf = Shelf(ticket_of(row, store.kv(row.run_id), key).artifacts)
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
    shelf = Shelf(ticket_of(row, store.kv(row.run_id), key).artifacts)
    for step in wanted:
        target = _require_place(layout, step)
        staged = target.with_name(f"{target.name}.tmp-fetched")
        beneath.remove_tree(staged)
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
