"""Who works in the fleet, who leads it, and which runs wait for it; all times are the store's."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from treadle.store.runs import RunRow
from treadle.store.transaction import InTransaction, Reading, Writing, change, kept_in

T = TypeVar("T")

LIVING = ("alive", "draining")


@kept_in("workers")
class WorkerRow(NamedTuple):
    """One worker process of the fleet; its status is alive, draining, left or dead."""

    worker_id: str
    host: str
    pid: int
    slots: int
    busy: int
    status: str
    started_at: str
    beat_at: str


class FleetProject(NamedTuple):
    """A project whose runs the fleet takes, and where its repository is fetched from."""

    project: str
    remote: str


def workers(store: Reading) -> list[WorkerRow]:
    """Return every worker that was seen lately, oldest first."""
    return store.records(WorkerRow, "workers")


def living(store: Reading) -> list[WorkerRow]:
    """Return the workers that work or drain, oldest first."""
    return [row for row in workers(store) if row.status in LIVING]


@change
def register(tx: Writing, row: WorkerRow, forget_before: str) -> None:
    """Add a worker, and drop those that are long gone."""
    tx.execute("forget_workers", {"before": forget_before})
    tx.execute("add_worker", row)


def beat(store: Writing, worker_id: str, busy: int, at: str) -> str | None:
    """Say that a worker lives; its status, or None if it was declared dead."""
    values = {"worker_id": worker_id, "busy": busy, "at": at}
    row = _at_once(store, lambda tx: tx.execute("beat", values).fetchone())
    return str(row[0]) if row else None


def set_status(store: Writing, worker_id: str, status: str) -> bool:
    """Let a living worker drain or leave; False when it does not live."""
    values = {"worker_id": worker_id, "status": status}
    return _at_once(store, lambda tx: tx.execute("set_worker", values).rowcount > 0)


def bury(store: Writing, worker_id: str, before: str) -> None:
    """Declare a worker dead if its last beat is older than `before`."""
    values = {"worker_id": worker_id, "before": before}
    _at_once(store, lambda tx: tx.execute("bury_worker", values))


def cut_off(store: Writing, worker_id: str) -> None:
    """End what a worker has open in the database, with the locks it holds."""
    store.all("cut_off", worker_id=worker_id)


def lead(store: Writing, worker_id: str, at: str, until: str) -> bool:
    """Become or stay the leader until then; False while another one leads."""
    values = {"worker_id": worker_id, "at": at, "until": until}
    return _at_once(store, lambda tx: tx.execute("lead", values).rowcount > 0)


def leader(store: Reading, at: str) -> str | None:
    """Return who leads now."""
    rows = store.all("leader", at=at)
    return str(rows[0][0]) if rows else None


def add_project(store: Writing, project: str, remote: str, at: str) -> None:
    """Let the fleet look for runs of a project."""
    values = {"project": project, "remote": remote, "at": at}
    _at_once(store, lambda tx: tx.execute("add_fleet_project", values))


def projects(store: Reading) -> list[FleetProject]:
    """Return the projects the fleet works for."""
    return store.records(FleetProject, "fleet_projects")


def queued(store: Reading) -> list[RunRow]:
    """Return the runs that wait for a worker, oldest first."""
    return store.records(RunRow, "runs_queued")


def held(store: Reading) -> list[RunRow]:
    """Return the runs that workers drive, or drove when they died."""
    return store.records(RunRow, "runs_of_workers")


def claim(store: Writing, row: RunRow, owner: str | None) -> int | None:
    """Take a run over if it still is as it was read; None when somebody was quicker."""
    values = {"run_id": row.run_id, "epoch": row.claim_epoch, "status": row.status, "owner": owner}
    found = store.write(lambda tx: tx.execute("claim_run", values).fetchone())
    return int(found[0]) if found else None


def _at_once(store: Writing, apply: Callable[[InTransaction], T]) -> T:
    """Change something with one statement: a worker that stands still then holds no lock."""
    return store.write(apply, alone=False, lasting=False)
