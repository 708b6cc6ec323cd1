"""Change many runs of a fleet at once: by why they stand, by their project or by their worker."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from treadle.config.schema import FleetConfig
from treadle.contract import RunStatus
from treadle.engine.elsewhere import archive, fleet_run
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.run import memory
from treadle.engine.wheel import end
from treadle.errors import NotFoundError, StoreError, TreadleError
from treadle.fleet import submit
from treadle.fleet.queue import Job, Queue
from treadle.fleet.site import FleetSite
from treadle.fleet.submit import Desk
from treadle.ids import is_run_id
from treadle.project.key import FleetKey
from treadle.store import fleet
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store

Change = Literal["resume", "requeue", "cancel"]

_LOOKS: Mapping[Change, Sequence[RunStatus]] = {
    "resume": ("stopped", "failed"),
    "requeue": ("running",),
    "cancel": ("running", "stopped"),
}


class RunChange(NamedTuple):
    """A run that was changed, or why it was not."""

    project: str
    run_id: str
    problem: str | None = None


class Hand(NamedTuple):
    """What changing runs of one project needs."""

    project: str
    store: Store
    dispatcher: Queue
    key: FleetKey


def change_runs(
    site: FleetSite, config: FleetConfig, env: Mapping[str, str], what: Change, where: str
) -> list[RunChange]:
    """Resume, queue again or cancel all runs that `where` means, in every project."""
    dispatcher, key = Queue(site, config), submit.sealing(site, env)
    done: list[RunChange] = []
    with site.fleet() as store:
        names = [name for name, _ in fleet.projects(store)]
    for name in names:
        try:
            with site.reader(name) as looking:
                meant = list(_meant(looking, name, what, where))
        except StoreError as error:
            if error.code == "store_unreachable" or where == name:
                raise
            continue  # it belongs to others
        if meant:
            with site.store(name) as store:
                hand = Hand(name, store, dispatcher, key)
                done += [_changed(hand, what, row) for row in meant]
    if not done and where not in names:
        text = f"no run to {what} matches the reason, project or worker {where!r}"
        raise NotFoundError(text, fix=["treadle fleet status"])
    return done


def rebuild_runs(desk: Desk) -> list[RunChange]:
    """Queue the runs of a project again of which its archives know more than its store."""
    found: dict[str, list[str]] = {}
    for name in Shelf(submit.shelf_url(desk)).names(archive.RUNS):
        found.setdefault(name.split("/")[1], []).append(name)
    done: list[RunChange] = []
    for run_id in sorted(filter(is_run_id, found)):
        try:
            if submit.rebuild(desk, run_id, found[run_id]):
                done.append(RunChange(desk.site.project, run_id))
        except TreadleError as error:
            done.append(RunChange(desk.site.project, run_id, error.message))
    return done


def _meant(store: Reader, project: str, what: Change, where: str) -> Iterator[RunRow]:
    for status in _LOOKS[what]:
        for row in fleet.of_status(store, status):
            known = memory.recall(store, row.run_id)
            is_queued = memory.is_queued(row, known)
            if status == "stopped" and is_queued != (what == "cancel"):
                continue
            worker = (row.owner or "").removeprefix(fleet_run.WORKER) or None
            if where in (project, known.reason_code, worker):
                yield row


def _changed(hand: Hand, what: Change, row: RunRow) -> RunChange:
    try:
        _CHANGES[what](hand, row)
    except TreadleError as error:
        return RunChange(hand.project, row.run_id, error.message)
    return RunChange(hand.project, row.run_id)


def _requeue(hand: Hand, row: RunRow) -> None:
    """Take a run from its worker, which can commit nothing more, and let others have it."""
    waiting = fleet_run.requeue(hand.store, row, "queued again by hand", tries=None)
    if waiting:
        known = memory.recall(hand.store, row.run_id)
        job = Job(hand.project, row.run_id, waiting.claim_epoch)
        hand.dispatcher.submit(job, fleet_run.priority_of(known))


def _cancel(hand: Hand, row: RunRow) -> None:
    reason = "canceled by `treadle fleet cancel`"
    if row.status == "running" or not fleet_run.call_off(hand.store, row, reason):
        hand.store.request_stop(row.run_id, reason, hand.store.now())
        return
    end.tell_desk(hand.store, row, memory.recall(hand.store, row.run_id), hand.store.now())


_CHANGES: Mapping[Change, Callable[[Hand, RunRow], object]] = {
    "resume": lambda hand, row: submit.resume(hand.store, hand.dispatcher, hand.key, row, {}),
    "requeue": _requeue,
    "cancel": _cancel,
}
