"""Who works in the fleet, who leads it, and which runs wait for it; all times are the store's."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

from treadle.contract import RunStatus
from treadle.store.address import OpenReader
from treadle.store.runs import RunRow
from treadle.store.transaction import (
    InTransaction,
    Reading,
    Writing,
    as_records,
    change,
    kept_in,
)

T = TypeVar("T")

LIVING = ("alive", "draining")


@kept_in("workers")
class WorkerRow(NamedTuple):
    """One worker process of the fleet; its status is alive, draining, left or dead.

    While it only fails, `trouble` says why it leaves runs to others; `serves` says which runs it
    takes at all, and `dead_after` for how many seconds it may be silent.
    """

    worker_id: str
    host: str
    pid: int
    slots: int
    busy: int
    status: str
    started_at: str
    beat_at: str
    trouble: str | None = None
    serves: str | None = None
    dead_after: float | None = None


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


def beat(
    store: Writing, worker_id: str, busy: int, at: str, trouble: str | None = None
) -> tuple[str, bool] | None:
    """Say that a worker lives; its status, or None if it was declared dead.

    The second part tells whether anybody has a job: mostly there are none to be looked at.
    """
    values = {"worker_id": worker_id, "busy": busy, "at": at, "trouble": trouble}
    row = _at_once(store, lambda tx: tx.execute("beat", values).fetchone())
    return (str(row[0]), bool(row[1])) if row else None


def set_status(store: Writing, worker_id: str, status: str) -> bool:
    """Let a living worker drain or leave; False when it does not live."""
    return _changed(store, "set_worker", worker_id=worker_id, status=status) > 0


def bury(store: Writing, worker_id: str, before: str) -> None:
    """Declare a worker dead if its last beat is older than `before`."""
    _changed(store, "bury_worker", worker_id=worker_id, before=before)


def cut_off(store: Writing, worker_id: str) -> None:
    """End what a worker has open in the database, with the locks it holds."""
    store.all("cut_off", worker_id=worker_id)


def lead(store: Writing, worker_id: str, at: str, until: str) -> bool:
    """Become or stay the leader until then; False while another one leads."""
    return _changed(store, "lead", worker_id=worker_id, at=at, until=until) > 0


def leader(store: Reading, at: str) -> str | None:
    """Return who leads now."""
    rows = store.all("leader", at=at)
    return str(rows[0][0]) if rows else None


def add_project(store: Writing, project: str, remote: str, at: str) -> None:
    """Let the fleet look for runs of a project."""
    _changed(store, "add_fleet_project", project=project, remote=remote, at=at)


def remove_project(store: Writing, project: str) -> None:
    """Let the fleet look for runs of a project no longer."""
    _changed(store, "remove_fleet_project", project=project)


def projects(store: Reading) -> list[FleetProject]:
    """Return the projects the fleet works for."""
    return store.records(FleetProject, "fleet_projects")


def use(store: Writing, worker_id: str, job: str, limits: Mapping[str, int]) -> str | None:
    """Count a run at its providers, at all or none; the one that living workers use enough."""

    def apply(tx: InTransaction) -> str | None:
        values = {"worker_id": worker_id, "job": job}
        for provider, most in limits.items():
            if not tx.execute("add_use", {**values, "provider": provider, "most": most}).rowcount:
                tx.execute("remove_uses", values)
                return provider
        return None

    return store.write(apply)


def end_use(store: Writing, worker_id: str, job: str) -> None:
    """Count a run no longer."""
    _changed(store, "remove_uses", worker_id=worker_id, job=job)


class HeldJob(NamedTuple):
    """A job by its name, and who has it, if anybody."""

    job: str
    worker_id: str | None


def add_job(store: Writing, job: str, project: str, priority: int, at: str) -> None:
    """Let a job wait; one that was ever there stays as it is."""
    values = {"job": job, "project": project, "priority": priority, "at": at}
    store.write(lambda tx: tx.execute("add_job", values), alone=False)


def take_job(store: Writing, worker_id: str, most: int, but: Collection[str] = ()) -> str | None:
    """Take the job that is next, of a project of which fewer than `most` are held.

    Jobs and projects in `but` are left to others.
    """
    if store.one("some_job") is None:
        return None  # most looks find nothing: they must be cheap, and in nobody's way
    values = {"worker_id": worker_id, "most": most, "but": f"|{'|'.join(but)}|"}
    found = store.write(lambda tx: tx.execute("take_job", values).fetchone(), lasting=False)
    return str(found[0]) if found else None


def end_jobs(store: Writing, state: str, held: Mapping[str, str], at: str) -> None:
    """Let jobs be done, or wait again in their place, unless somebody else has them by now."""

    def apply(tx: InTransaction) -> None:
        for job, holder in held.items():
            tx.execute("end_job", {"job": job, "worker_id": holder, "state": state, "at": at})

    store.write(apply, alone=False)


def waiting_jobs(store: Reading) -> list[HeldJob]:
    """Return the jobs that nobody has."""
    return store.records(HeldJob, "jobs", state="waiting")


def held_jobs(store: Reading, worker_id: str | None = None) -> list[HeldJob]:
    """Return the jobs that somebody has, or that one worker has."""
    if worker_id is None:
        return store.records(HeldJob, "jobs", state="held")
    return store.records(HeldJob, "jobs_of_worker", worker_id=worker_id)


def forget_jobs(store: Writing, before: str) -> None:
    """Remove jobs that were done before then."""
    _changed(store, "forget_jobs", before=before)


_OPEN = ("runs_queued", "runs_of_workers", "runs_ended_by_workers")


class FleetRuns(NamedTuple):
    """The runs of a project that the fleet has something to do with, each oldest first.

    They wait for a worker; a worker drives them, or drove them when it died or let go of them; or
    they have ended while a worker still says it drives them.
    """

    queued: list[RunRow]
    held: list[RunRow]
    ended: list[RunRow]


def runs(store: Reading) -> FleetRuns:
    """Return a project's runs that wait, are driven, or have ended and were not let go."""
    return FleetRuns(*(store.records(RunRow, name) for name in _OPEN))


def runs_by_project(store: OpenReader, projects: Sequence[str]) -> dict[str, FleetRuns]:
    """Return the runs of many projects at once; those that need more than a look are left out."""
    found = store.each(projects, *_OPEN)
    return {
        name: FleetRuns(*(as_records(RunRow, rows) for rows in answers))
        for name, answers in found.items()
    }


def queued(store: Reading) -> list[RunRow]:
    """Return the runs that wait for a worker, oldest first."""
    return store.records(RunRow, _OPEN[0])


def of_status(store: Reading, status: RunStatus) -> list[RunRow]:
    """Return the runs of the fleet that stand like this."""
    return store.records(RunRow, "runs_of_fleet", status=status)


def require_rights(store: Writing) -> None:
    """Change no run, which is refused to whoever may change none."""
    _changed(store, "change_no_run")


def claim(store: Writing, row: RunRow, owner: str | None) -> int | None:
    """Take a run over if it still is as it was read; None when somebody was quicker."""
    seen = {"epoch": row.claim_epoch, "status": row.status, "seen_owner": row.owner}
    values = {"run_id": row.run_id, "owner": owner, **seen}
    found = store.write(lambda tx: tx.execute("claim_run", values).fetchone())
    return int(found[0]) if found else None


def _changed(store: Writing, name: str, **values: object) -> int:
    """Carry out one statement; return how many rows it changed."""
    return _at_once(store, lambda tx: tx.execute(name, values).rowcount)


def _at_once(store: Writing, apply: Callable[[InTransaction], T]) -> T:
    """Change something with one statement: a worker that stands still then holds no lock."""
    return store.write(apply, alone=False, lasting=False)
