"""Say how a fleet stands: who works, what waits, what is stuck."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from treadle.engine import queue
from treadle.fleet.site import Site
from treadle.ids import utc
from treadle.store import fleet
from treadle.store.records import RunRow, WorkerRow

_LIVING = ("alive", "draining")


class Stuck(NamedTuple):
    """A run that nobody drives although it is under way."""

    project: str
    run_id: str
    worker: str
    beat_at: str | None


class Status(NamedTuple):
    """The answer of `fleet status`."""

    now: str
    leader: str | None
    workers: Sequence[WorkerRow]
    queued: dict[str, int]
    running: dict[str, int]
    stuck: Sequence[Stuck]


def status(site: Site) -> Status:
    """Look at the tables; no worker is asked."""
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
                stuck += _stuck(item.project, held, workers)
    return Status(now, leader, workers, dict(queued), dict(running), stuck)


def _stuck(project: str, held: Sequence[RunRow], workers: Sequence[WorkerRow]) -> list[Stuck]:
    known = {row.worker_id: row for row in workers}
    found = []
    for row in held:
        name = (row.owner or "").removeprefix(queue.WORKER)
        worker = known.get(name)
        if worker is None or worker.status not in _LIVING:
            found.append(Stuck(project, row.run_id, name, worker.beat_at if worker else None))
    return found
