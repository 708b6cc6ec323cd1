"""Change runs, steps and events inside a transaction."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treadle.errors import FencedError, NotFoundError
from treadle.store import codec, costs
from treadle.store.backend import Connection
from treadle.store.queries import SQL
from treadle.store.rows.check import CheckRow
from treadle.store.rows.run import (
    Cursor,
    Event,
    RunRow,
    StepRow,
    UsageRow,
    event_values,
)

STOP_REQUESTED = "stop_requested"

Rows = list[tuple[str, Sequence[tuple[object, ...]]]]

_CLEAR = ("clear_steps", "clear_events", "clear_kv", "clear_usage", "clear_checks")


class History(NamedTuple):
    """What the store knows about one run beside its row; None as a kv value removes the key."""

    steps: Sequence[StepRow] = ()
    events: Sequence[Event] = ()
    kv: Mapping[str, object] = {}
    usage: Sequence[UsageRow] = ()
    checks: Sequence[CheckRow] = ()


def rows(run_id: str, history: History) -> Rows:
    """Turn a history into statements and their rows, outside of any transaction."""
    kept = [(run_id, key, codec.to_json(it)) for key, it in history.kv.items() if it is not None]
    gone = [(run_id, key) for key, it in history.kv.items() if it is None]
    events = [(run_id, *event_values(event)) for event in history.events]
    parts: list[tuple[str, Sequence[tuple[object, ...]]]] = [
        ("insert_step", history.steps),
        ("insert_event", events),
        ("insert_usage", history.usage),
        ("count_cost", costs.tally(history.steps, history.usage)),
        ("insert_check", history.checks),
        ("set_kv", kept),
        ("unset_kv", gone),
    ]
    return [(SQL[name], rows) for name, rows in parts if rows]


def insert(tx: Connection, run: RunRow, rows: Rows) -> None:
    """Add a run."""
    tx.execute(SQL["insert_run"], run)
    append(tx, rows)


def restore(tx: Connection, run: RunRow, rows: Rows) -> None:
    """Make a run be exactly what its files say, whatever the store held."""
    tx.execute(SQL["upsert_run"], run)
    costs.uncount(tx, run.run_id)
    for name in _CLEAR:
        tx.execute(SQL[name], {"run_id": run.run_id})
    append(tx, rows)


def append(tx: Connection, rows: Rows) -> None:
    """Add steps, events and what belongs to them."""
    for sql, values in rows:
        tx.executemany(sql, values)


def advance(
    tx: Connection, run_id: str, cursor: Cursor, epoch: int, rows: Rows, releases: bool
) -> None:
    """Move the cursor and add what came with it, if `epoch` still owns the run."""
    values = cursor._asdict() | {"run_id": run_id, "epoch": epoch}
    if not tx.execute(SQL["move_cursor"], values).rowcount:
        raise _fenced(tx, run_id, epoch)
    append(tx, rows)
    if releases:
        release(tx, run_id, epoch, None)


def take_over(tx: Connection, run_id: str, owner: str | None) -> int:
    """Give the run to a new owner and return the epoch that fences off the old one."""
    row = tx.execute(SQL["take_over"], {"run_id": run_id, "owner": owner}).fetchone()
    if row is None:
        raise _unknown(run_id)
    return int(row[0])


def release(tx: Connection, run_id: str, epoch: int, owner: str | None) -> None:
    """Say that no process drives the run any more."""
    values = {"run_id": run_id, "epoch": epoch, "owner": owner}
    if not tx.execute(SQL["release_run"], values).rowcount:
        raise _fenced(tx, run_id, epoch)


def leave(tx: Connection, run_id: str, key: str, note: Mapping[str, object]) -> None:
    """Leave a note that the run's owner will find; its timeline stays the owner's."""
    if tx.execute(SQL["run"], {"run_id": run_id}).fetchone() is None:
        raise _unknown(run_id)
    append(tx, rows(run_id, History(kv={key: note})))


def delete(tx: Connection, run_id: str) -> bool:
    """Remove a run and everything that belongs to it."""
    return tx.execute(SQL["delete_run"], {"run_id": run_id}).rowcount > 0


def _fenced(tx: Connection, run_id: str, epoch: int) -> FencedError | NotFoundError:
    row = tx.execute(SQL["run"], {"run_id": run_id}).fetchone()
    if row is None:
        return _unknown(run_id)
    run = RunRow._make(row)
    return FencedError(
        f"run {run_id} was taken over by another process; what this one did is not recorded",
        fix=[f"treadle runs show {run_id}"],
        details={"run_id": run_id, "epoch": epoch, "claim_epoch": run.claim_epoch},
    )


def _unknown(run_id: str) -> NotFoundError:
    return NotFoundError(f"there is no run {run_id}", fix=["treadle runs list"])
