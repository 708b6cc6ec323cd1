"""Runs of the fleet: they wait for a worker, their orders are signed, their folders come back."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from treadle.contract import ROLES, RunStatus
from treadle.contract.events import EventType, NewEvent
from treadle.engine.elsewhere import archive
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.lock import WORKER as WORKER
from treadle.engine.run import memory, run_files
from treadle.engine.run.memory import FLEET, QUEUED, RunMemory
from treadle.engine.run.order import Order
from treadle.engine.run.run import Run, Tools, cursor_of
from treadle.engine.run.run_files import Manifest, RunFile
from treadle.errors import FormatError, TreadleError
from treadle.files import atomic, beneath, sync
from treadle.git import remote
from treadle.git.repo import Repo, find
from treadle.ids import utc
from treadle.layout import Layout
from treadle.project import key as keys
from treadle.project.key import FleetKey
from treadle.store import fleet
from treadle.store.runs import Event, History, RunRow, StepRow
from treadle.store.store import Reader, Store, Transaction

ORDER = "order"
SIGNATURE = "signature"
_SIGNER = "signed_by"  # who changes it can only delay the run
_ROW = "row"
_PAGE = 16
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
    prefix: str = ""  # the project's folder in the repository
    needs: tuple[str, ...] = ()  # the labels that a worker must have


class FleetOrder(Struct, frozen=True, kw_only=True):
    """What a run of the fleet was asked to do, and where its repository and archives are."""

    order: Order
    ticket: Ticket = msgspec.field(name=FLEET)


def is_claimable(row: RunRow, known: RunMemory) -> bool:
    """Tell whether a worker may take a run: it waits, or its worker is gone."""
    is_held = (row.owner or "").startswith(WORKER)
    return known.is_of_fleet and (memory.is_queued(row, known) or is_held)


def insert(store: Store | Transaction, row: RunRow, asked: FleetOrder, key: FleetKey) -> None:
    """Write down a run that a worker is to drive."""
    needs = f" that has {', '.join(asked.ticket.needs)}" if asked.ticket.needs else ""
    message = f"waits for a worker of the fleet{needs}: {row.goal}"
    data = {
        "base_commit": row.base_commit,
        "criteria": list(asked.order.ids),
        "remote": asked.ticket.remote,
    }
    event = Event(1, row.created_at, EventType.RUN_QUEUED, message, data)
    waiting = memory.EMPTY._replace(
        reason_code=QUEUED, reason=f"waits for a worker{needs}", others=signed(row, asked, key)
    )
    store.insert_run(row, (event,), memory.encode(waiting))


def signed(row: RunRow, asked: FleetOrder, key: FleetKey) -> dict[str, object]:
    """Return what the store keeps of an order, with the signature that workers ask for."""
    kept: dict[str, object] = msgspec.to_builtins(asked)
    return {**kept, SIGNATURE: key.sign(ORDER, _text(row, kept)), _SIGNER: f"key {key.name}"}


def described(row: RunRow, asked: FleetOrder, key: FleetKey) -> bytes:
    """Return what is kept beside a run's archives: all that its row can be made of again."""
    kept = {_ROW: {name: getattr(row, name) for name in _SIGNED}, **signed(row, asked, key)}
    return msgspec.json.encode(kept)


def read_described(data: bytes, source: str, key: FleetKey) -> tuple[RunRow, FleetOrder]:
    """Make the row of a run again that waits for its first step, if it was signed."""
    try:
        kept = msgspec.json.decode(data, type=dict[str, Any])
        blank: dict[str, Any] = {"status": "stopped", "iteration": 1, "current_step_index": 0}
        row = RunRow(**kept.pop(_ROW), **blank, verdict=None)
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise FormatError(f"{source} is not the order of a run that can be rebuilt") from error
    row = row._replace(head_commit=row.base_commit)
    return row, order_of(row, memory.EMPTY._replace(others=kept), key)


def requeue(store: Store, row: RunRow, message: str, **remembered: Any) -> RunRow | None:
    """Let a run wait for another worker; None when it is no longer as it was read."""
    remembered |= {"reason_code": QUEUED, "reason": message, "stop_requested": None}
    return take(store, row, None, EventType.RUN_QUEUED, message, **remembered)


def take(
    store: Store,
    row: RunRow,
    owner: str | None,
    kind: EventType,
    message: str,
    status: RunStatus = "stopped",
    **remembered: Any,
) -> RunRow | None:
    """Give a run a new owner and say so, in one transaction; None if it is not as it was read."""

    now = utc(store.now())

    def apply(tx: Transaction) -> RunRow | None:
        epoch = fleet.claim(tx, row, owner)
        if epoch is None:
            return None
        taken = row._replace(claim_epoch=epoch, owner=owner, status=status)
        return _tell(tx, taken, kind, message, now, **remembered)

    return store.write(apply)


def give_back(run: Run, message: str) -> None:
    """Put a run that is being driven back into the queue."""
    event = NewEvent(EventType.RUN_QUEUED, message)
    told: dict[str, Any] = {"reason_code": QUEUED, "reason": message}
    waiting = run.cursor(status="stopped", ended_at=None)
    run.record(event, cursor=waiting, stop_requested=None, tries=None, **told)
    run.tools.store.release(run.id, run.row.claim_epoch)


def call_off(store: Store, row: RunRow, reason: str) -> bool:
    """Take a waiting run out of the queue; False when a worker was quicker."""
    told: dict[str, Any] = {"reason_code": "interrupted", "reason": reason}
    return take(store, row, None, EventType.RUN_STOPPED, reason, **told) is not None


def record(store: Store, row: RunRow, kind: EventType, message: str, **remembered: Any) -> None:
    """Write down what happens to a run while no folder of it is here."""
    _tell(store, row, kind, message, utc(store.now()), **remembered)


def _tell(
    store: Store | Transaction,
    row: RunRow,
    kind: EventType,
    message: str,
    now: str,
    **remembered: Any,
) -> RunRow:
    before = memory.decode(store.kv(row.run_id))
    after = before._replace(**remembered)
    goes_on = row.status == "running" or after.reason_code == QUEUED
    row = row._replace(ended_at=None if goes_on else now)
    event = Event(store.last_seq(row.run_id) + 1, now, kind, message)
    history = History(events=(event,), kv=memory.changes(before, after))
    store.advance(row.run_id, history, cursor_of(row), row.claim_epoch)
    return row


def order_of(row: RunRow, known: RunMemory, key: FleetKey) -> FleetOrder:
    """Return what a run of the fleet was asked to do, if whoever queued it has the key."""
    kept, signature = known.others, known.others.get(SIGNATURE)
    if not signature or not key.knows(signature, ORDER, _text(row, kept)):
        why = "was changed after it was queued, or signed with another key"
        raise FormatError(
            f"run {row.run_id}: its order in the store {why if signature else 'is not signed'},"
            " so it is refused",
            code="order_forged" if signature else "order_unsigned",
            fix=["treadle fleet key", f"treadle runs show {row.run_id}"],
        )
    try:
        return msgspec.convert(kept, FleetOrder)
    except msgspec.ValidationError as error:
        raise FormatError(f"run {row.run_id}: its order in the store is wrong: {error}") from error


def priority_of(known: RunMemory) -> int:
    """Return how urgent a run is; nothing else depends on it, so nobody need have signed it."""
    found = _of_ticket(known, "priority")
    return found if isinstance(found, int) else 0


def needs_of(known: RunMemory) -> set[str]:
    """Return which labels and which key a run needs; a worker only passes it on for that."""
    found, signer = _of_ticket(known, "needs"), known.others.get(_SIGNER)
    needs = set(map(str, found)) if isinstance(found, list) else set[str]()
    return needs | {str(signer)} if signer else needs


def providers_of(known: RunMemory) -> set[str]:
    """Return the types of a run's agents; who wrote something else there is only counted wrong."""
    order = known.others.get(ORDER)
    agents = order.get("agents") if isinstance(order, dict) else None
    found = agents.values() if isinstance(agents, dict) else ()
    return {str(it["config"].get("type")) for it in found if isinstance(it.get("config"), dict)}


def _of_ticket(known: RunMemory, name: str) -> object:
    ticket = known.others.get(FLEET)
    return ticket.get(name) if isinstance(ticket, dict) else None


def _text(row: RunRow, kept: Mapping[str, object]) -> str:
    """Return what is signed: the order and the ticket as the store has them, and of the row what
    never changes."""
    parts = [[getattr(row, name) for name in _SIGNED], kept.get(ORDER), kept.get(FLEET)]
    return msgspec.json.encode(parts, order="sorted").decode()


def look(layout: Layout, store: Reader, row: RunRow, env: Mapping[str, str] = os.environ) -> None:
    """Bring a run of the fleet here for whoever wants to see its files; any other run stays."""
    known = memory.recall(store, row.run_id)
    if not known.is_of_fleet:
        return
    if _missing(layout, store, row) or not layout.run(row.run_id).run_json.exists():
        _bring(find(layout.root), layout, store, row, env)


def _bring(repo: Repo, layout: Layout, store: Reader, row: RunRow, env: Mapping[str, str]) -> None:
    key = keys.read(env, layout.root)
    asked = order_of(row, memory.recall(store, row.run_id), key)
    restore(layout, store, row, asked, key)
    bring_commit(repo, store, row, asked.ticket, key)


def peek(layout: Layout, store: Reader, row: RunRow) -> None:
    """Look, if it can be had: a page without its files is better than none."""
    with contextlib.suppress(TreadleError):
        look(layout, store, row)


def bring_here(tools: Tools, row: RunRow) -> None:
    """Bring a run of the fleet to the project's own machine, for whoever lands or resumes it."""
    known = memory.recall(tools.store, row.run_id)
    if known.is_of_fleet and row.status != "running":
        _bring(tools.repo, tools.layout, tools.store, row, tools.env)


def restore(layout: Layout, store: Reader, row: RunRow, asked: FleetOrder, key: FleetKey) -> None:
    """Make the whole folder, as if the run had always worked here."""
    steps = store.steps(row.run_id)
    for step in steps:
        _require_place(layout, step)
    folder = layout.run(row.run_id)
    folder.steps.mkdir(parents=True, exist_ok=True)
    folder.live.mkdir(exist_ok=True)
    if wanted := _missing(layout, store, row):
        _fetch(layout, wanted, Shelf(asked.ticket.artifacts), key)
    told = {event.seq for found in _proven(layout, row, steps) for event in found.events}
    events = [event for event in store.events(row.run_id) if event.seq not in told]
    atomic.write(folder.spec, asked.order.text.encode() + b"\n")
    run_files.write_run(folder.run_json, RunFile(asked.order, row, events, store.kv(row.run_id)))


def bring_commit(repo: Repo, store: Reader, row: RunRow, ticket: Ticket, key: FleetKey) -> None:
    """See to it that the run's head can be read in `repo`, from its archives if need be."""
    head = row.head_commit or row.base_commit or ""
    if remote.has(repo, head):
        return
    shelf = Shelf(ticket.artifacts)
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


def _missing(layout: Layout, store: Reader, row: RunRow) -> list[StepRow]:
    """Return the steps with an archive whose folder is not here."""
    steps = store.steps(row.run_id)
    return [step for step in steps if step.archive and not (layout.shared / step.step_dir).is_dir()]


def _fetch(layout: Layout, wanted: Sequence[StepRow], shelf: Shelf, key: FleetKey) -> None:
    """Unpack steps, each beside its place first; others may be at the same.

    What takes long is to wait for each archive, so a page of them is asked for at once.
    """

    def bring(step: StepRow) -> None:
        target = _require_place(layout, step)
        staged = layout.run(step.run_id).staged(step.step_index, step.role, os.urandom(6).hex())
        try:
            archive.unpack(archive.read(shelf, step, key), staged)
            with contextlib.suppress(FileExistsError):  # somebody was quicker
                sync.rename_new(staged, target)
        finally:
            beneath.remove_tree(staged)

    with ThreadPoolExecutor(_PAGE) as pool:
        list(pool.map(bring, wanted))


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
        return run_files.read_committed(layout.shared / step.step_dir, step)
    except FormatError as error:
        raise _changed(step.run_id, f"step {step.step_index}: {error.message}") from error


def _changed(run_id: str, what: str) -> FormatError:
    return FormatError(
        f"run {run_id}: the store contradicts the archives of its steps: {what}",
        code="row_forged",
        fix=[f"treadle runs show {run_id}"],
    )
