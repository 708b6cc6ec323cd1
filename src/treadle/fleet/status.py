"""Say how a fleet stands: who works, what waits, what is stuck."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple

from treadle.engine.elsewhere import queue
from treadle.fleet.site import FleetSite
from treadle.ids import utc
from treadle.store import fleet
from treadle.store.fleet import WorkerRow
from treadle.store.runs import RunRow
from treadle.store.store import Reader

# Project and id of the runs that a job stands for; None when the queue cannot be asked.
Jobs = Callable[[], Collection[tuple[str, str]] | None]


class Stuck(NamedTuple):
    """A run that nobody drives although it is under way."""

    project: str
    run_id: str
    worker: str
    beat_at: str | None
    reason: Literal["worker_gone", "no_job"]


class FleetStatus(NamedTuple):
    """The answer of `fleet status`."""

    now: str
    leader: str | None
    workers: Sequence[WorkerRow]
    queued: dict[str, int]
    running: dict[str, int]
    stuck: Sequence[Stuck]


def status(site: FleetSite, jobs: Jobs) -> FleetStatus:
    """Look at the tables; no worker is asked, the queue only when a run is under way."""
    queued: Counter[str] = Counter()
    running: Counter[str] = Counter()
    stuck: list[Stuck] = []
    with site.fleet() as store:
        now = utc(store.now())
        workers = fleet.workers(store)
        leader = fleet.leader(store, now)
        projects = fleet.projects(store)
        for item in projects:
            with site.store(item.project) as rows:
                queued[item.project] = len(fleet.queued(rows))
                held = fleet.held(rows)
                running[item.project] = len(held)
                stuck += _stuck(item.project, rows, held, workers, jobs)
    return FleetStatus(now, leader, workers, dict(queued), dict(running), stuck)


def _stuck(
    project: str, store: Reader, held: Sequence[RunRow], workers: Sequence[WorkerRow], jobs: Jobs
) -> list[Stuck]:
    known = {row.worker_id: row for row in workers}
    lost = _without_job(project, store, held, jobs) if held else ()
    found = []
    for row in held:
        name = (row.owner or "").removeprefix(queue.WORKER)
        worker = known.get(name)
        beat_at = worker.beat_at if worker else None
        if worker is None or worker.status not in fleet.LIVING:
            found.append(Stuck(project, row.run_id, name, beat_at, "worker_gone"))
        elif row in lost:
            found.append(Stuck(project, row.run_id, name, beat_at, "no_job"))
    return found


def _without_job(
    project: str, store: Reader, held: Sequence[RunRow], jobs: Jobs
) -> Collection[RunRow]:
    """Return the runs that no job stands for, and that nobody took or ended meanwhile."""
    known = jobs()
    if known is None:
        return ()
    lost = [row for row in held if (project, row.run_id) not in known]
    claims = {(row.run_id, row.claim_epoch) for row in fleet.held(store)} if lost else set()
    return [row for row in lost if (row.run_id, row.claim_epoch) in claims]
