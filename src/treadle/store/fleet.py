"""Who works in the fleet, who leads it, and which runs wait for it; all times are the store's."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from treadle.store.backend import Connection
from treadle.store.queries import SQL
from treadle.store.reader import Reader
from treadle.store.rows.run import RunRow
from treadle.store.rows.worker import WorkerRow
from treadle.store.writer import Store

T = TypeVar("T")

LIVING = ("alive", "draining")


class FleetProject(NamedTuple):
    """A project whose runs the fleet takes, and where its repository is fetched from."""

    project: str
    remote: str


def workers(store: Reader) -> list[WorkerRow]:
    """Return every worker that was seen lately, oldest first."""
    return [WorkerRow._make(row) for row in store._all("workers")]


def living(store: Reader) -> list[WorkerRow]:
    """Return the workers that work or drain, oldest first."""
    return [row for row in workers(store) if row.status in LIVING]


def register(store: Store, row: WorkerRow, forget_before: str) -> None:
    """Add a worker, and drop those that are long gone."""

    def apply(tx: Connection) -> None:
        tx.execute(SQL["forget_workers"], {"before": forget_before})
        tx.execute(SQL["add_worker"], row)

    store._write(apply)


def beat(store: Store, worker_id: str, busy: int, at: str) -> str | None:
    """Say that a worker lives; its status, or None if it was declared dead."""
    values = {"worker_id": worker_id, "busy": busy, "at": at}
    row = _at_once(store, lambda tx: tx.execute(SQL["beat"], values).fetchone())
    return str(row[0]) if row else None


def set_status(store: Store, worker_id: str, status: str) -> bool:
    """Let a living worker drain or leave; False when it does not live."""
    values = {"worker_id": worker_id, "status": status}
    return _at_once(store, lambda tx: tx.execute(SQL["set_worker"], values).rowcount > 0)


def bury(store: Store, worker_id: str, before: str) -> None:
    """Declare a worker dead if its last beat is older than `before`."""
    values = {"worker_id": worker_id, "before": before}
    _at_once(store, lambda tx: tx.execute(SQL["bury_worker"], values))


def cut_off(store: Store, worker_id: str) -> None:
    """End what a worker has open in the database, with the locks it holds."""
    store._all("cut_off", worker_id=worker_id)


def lead(store: Store, worker_id: str, at: str, until: str) -> bool:
    """Become or stay the leader until then; False while another one leads."""
    values = {"worker_id": worker_id, "at": at, "until": until}
    return _at_once(store, lambda tx: tx.execute(SQL["lead"], values).rowcount > 0)


def leader(store: Reader, at: str) -> str | None:
    """Return who leads now."""
    rows = store._all("leader", at=at)
    return str(rows[0][0]) if rows else None


def add_project(store: Store, project: str, remote: str, at: str) -> None:
    """Let the fleet look for runs of a project."""
    values = {"project": project, "remote": remote, "at": at}
    _at_once(store, lambda tx: tx.execute(SQL["add_fleet_project"], values))


def projects(store: Reader) -> list[FleetProject]:
    """Return the projects the fleet works for."""
    return [FleetProject._make(row) for row in store._all("fleet_projects")]


def queued(store: Reader) -> list[RunRow]:
    """Return the runs that wait for a worker, oldest first."""
    return [RunRow._make(row) for row in store._all("runs_queued")]


def held(store: Reader) -> list[RunRow]:
    """Return the runs that workers drive, or drove when they died."""
    return [RunRow._make(row) for row in store._all("runs_of_workers")]


def claim(store: Store, row: RunRow, owner: str | None) -> int | None:
    """Take a run over if it still is as it was read; None when somebody was quicker."""
    values = {"run_id": row.run_id, "epoch": row.claim_epoch, "status": row.status, "owner": owner}
    found = store._write(lambda tx: tx.execute(SQL["claim_run"], values).fetchone())
    return int(found[0]) if found else None


def _at_once(store: Store, apply: Callable[[Connection], T]) -> T:
    """Change something with one statement: a worker that stands still then holds no lock."""
    return store._write(apply, alone=False, lasting=False)
