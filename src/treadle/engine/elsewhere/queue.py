"""Let runs wait for a worker of the fleet: written down, given back, called off."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import Struct

from treadle.contract.event import EventType
from treadle.contract.role import RunStatus
from treadle.engine.lock import WORKER as WORKER
from treadle.engine.run import memory
from treadle.engine.run.memory import QUEUED
from treadle.engine.run.order import Order
from treadle.engine.run.run import Run, cursor_of
from treadle.errors import FormatError
from treadle.ids import utc
from treadle.project.key import FleetKey
from treadle.store import fleet
from treadle.store.runs import Event, RunRow
from treadle.store.store import Store

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
    store.record(row.run_id, (event,), cursor, kv, row.claim_epoch)
