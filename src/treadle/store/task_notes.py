"""How a task's checks stand, and the files that are kept to one task."""

from collections.abc import Sequence

from treadle.store.queries import SQL
from treadle.store.reading import Reading
from treadle.store.rows.check import CheckRow, to_check
from treadle.store.rows.note import ReservationRow, TaskClaimRow
from treadle.store.writing import Writing


def observed(store: Reading, task_id: str) -> list[CheckRow]:
    """Return what treadle itself saw in the last check of a task's work."""
    return [to_check(row) for row in store._all("checks_of_task", task_id=task_id)]


def claims(store: Reading, task_id: str) -> dict[str, TaskClaimRow]:
    """Return what letters say, by the name of the check."""
    rows = [TaskClaimRow._make(row) for row in store._all("task_claims", task_id=task_id)]
    return {row.name: row._replace(value=bool(row.value)) for row in rows}


def links(store: Reading) -> list[tuple[str, str]]:
    """Return every task that waits for another, with that one."""
    return [(task_id, depends_on) for task_id, depends_on in store._all("task_links")]


def claim(store: Writing, row: TaskClaimRow) -> None:
    """Write down what a letter says; the latest word counts."""
    store._write(lambda tx: tx.execute(SQL["claim_check"], row))


def reservations(store: Reading, now: str) -> list[ReservationRow]:
    """Return the reservations that still hold."""
    return [ReservationRow._make(row) for row in store._all("reservations", now=now)]


def reserve(store: Writing, rows: Sequence[ReservationRow]) -> None:
    """Keep files to a task."""
    store._write(lambda tx: tx.executemany(SQL["reserve_files"], rows))


def unreserve(store: Writing, task_id: str) -> int:
    """Let a task's files go; return how many patterns there were."""
    values = {"task_id": task_id}
    return store._write(lambda tx: tx.execute(SQL["unreserve_files"], values).rowcount)
