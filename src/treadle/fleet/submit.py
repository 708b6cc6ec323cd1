"""Queue runs for the fleet: all that workers need is elsewhere before a run is in the store."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from msgspec import structs

from treadle.config.schema import Config, FleetConfig
from treadle.engine import letters
from treadle.engine.elsewhere import archive, fleet_run
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.elsewhere.fleet_run import FleetOrder, Ticket
from treadle.engine.recovery import repair
from treadle.engine.run import begin, memory
from treadle.engine.run.order import Order
from treadle.engine.run.run import reach
from treadle.errors import BlockedError, ConfigError, StoreError, TreadleError
from treadle.fleet.queue import Job, Queue
from treadle.fleet.site import FleetSite
from treadle.git import remote, repo
from treadle.ids import HUMAN, utc
from treadle.mail import effect
from treadle.project import key as keys
from treadle.project.context import Context
from treadle.project.key import FleetKey
from treadle.store import fleet
from treadle.store.runs import RunRow
from treadle.store.store import Store, Transaction
from treadle.tasks import claim

_AT_ONCE = 100  # runs whose branches are pushed together


class Desk(NamedTuple):
    """What every submission of one command shares."""

    project: Context
    config: Config
    site: FleetSite
    store: Store
    dispatcher: Queue
    priority: int = 0


def submit(desk: Desk, *orders: Order) -> list[RunRow]:
    """Queue runs; each is in the store before anything else knows of it."""
    for asked in orders:
        _check(desk, asked)
    key, ticket = sealing(desk.site, desk.project.env), _ticket(desk)
    if desk.site.url and any(asked.task_id for asked in orders):
        effect.refresh(desk.store, desk.project.layout.mail, desk.store.now())
    left, done = iter(orders), list[RunRow]()
    while some := list(islice(left, _AT_ONCE)):
        done += _submit(desk, [FleetOrder(order=it, ticket=ticket) for it in some], ticket, key)
    return done


def _submit(
    desk: Desk, wholes: Sequence[FleetOrder], ticket: Ticket, key: FleetKey
) -> Iterator[RunRow]:
    """Queue some runs together: a push for each would cost more than all the rest."""
    now = desk.store.now()
    rows = list(_rows(desk, wholes, now))
    waiting = list(zip(rows, wholes, strict=True))
    try:
        _publish(desk, waiting, ticket, key)
        while waiting:
            _write_down(desk, *waiting[0], key)
            row, _ = waiting.pop(0)
            if row.task_id and desk.site.url:
                letters.hand_over(desk.store, desk.project.layout.mail, row)
            _enqueue(desk.dispatcher, row, ticket)
            yield row
    except TreadleError as error:
        if error.code == "store_unreachable":  # it may have been saved all the same
            del waiting[:1]
        _take_back(desk, [row for row, _ in waiting], ticket)
        raise


def _rows(desk: Desk, wholes: Sequence[FleetOrder], now: datetime) -> Iterator[RunRow]:
    head, last = repo.head(desk.project.repo), desk.store.last_run_id()
    for whole in wholes:
        row = begin.new_row(desk.project.layout, last, whole.order, now, head)
        last = row.run_id
        yield row


def _check(desk: Desk, asked: Order) -> None:
    """Refuse what no worker could do, before anything is sent anywhere."""
    if asked.script is not None:
        text = "a script routine works in the project itself, not in the fleet"
        raise BlockedError(text, code="not_for_fleet", fix=["treadle process"])
    begin.check_possible(desk.project.layout, asked)
    if task := desk.store.task(asked.task_id or ""):
        claim.check_free(desk.store, task, HUMAN, desk.store.now())
        claim.check_dependencies(desk.store, task, desk.store.now())


def rebuild(desk: Desk, run_id: str, names: Sequence[str]) -> bool:
    """Queue a run again of which the archives know more than the store; False if they do not.

    The worker that takes it finds its steps there and commits them; no agent works twice.
    """
    key, store = sealing(desk.site, desk.project.env), desk.store
    places = [place for name in names if (place := archive.place_of(name))]
    if row := store.run(run_id):
        is_over = row.status in ("stopped", "failed")
        is_behind = max((step for step, _ in places), default=0) > row.current_step_index
        is_queued = memory.is_queued(row, memory.recall(store, run_id))
        if is_lost := is_over and is_behind and not is_queued:
            resume_one(desk, row, {})
        return is_lost
    name = archive.order_name(run_id)
    row, asked = fleet_run.read_described(Shelf(shelf_url(desk)).get(name), name, key)
    if asked.ticket.project != desk.site.project:
        return False
    row = row._replace(claim_epoch=max((epoch for _, epoch in places), default=0))
    repair.bring_task(store, asked.order, store.now())
    if asked.order.message:
        store.restore_message(repair.message_row(asked.order.message, row, refused=False))
    enlist(desk, asked.ticket.remote)
    _write_down(desk, row, asked, key)
    _enqueue(desk.dispatcher, row, asked.ticket)
    return True


def resume_one(desk: Desk, row: RunRow, budgets: Mapping[str, float]) -> RunRow:
    """Queue a run of this project again, which the fleet serves from now on if it did not."""
    enlist(desk, remote.url_of(desk.project.repo, desk.config.fleet.remote))
    return resume(desk.store, desk.dispatcher, sealing(desk.site, desk.project.env), row, budgets)


def resume(
    store: Store, dispatcher: Queue, key: FleetKey, row: RunRow, budgets: Mapping[str, float]
) -> RunRow:
    """Queue a run of the fleet again that has not passed, with raised budgets if need be."""
    known = memory.recall(store, row.run_id)
    is_over = row.status in ("stopped", "failed") and not memory.is_queued(row, known)
    if not is_over or not known.is_of_fleet:
        text = f"run {row.run_id} is not a stopped run of the fleet"
        fix = [f"treadle runs show {row.run_id}", f"treadle run --resume {row.run_id}"]
        raise BlockedError(text, code="not_resumable", fix=fix)
    asked = fleet_run.order_of(row, known, key)
    others = {**known.others, **fleet_run.signed(row, _raised(asked, budgets), key)}
    waiting = fleet_run.requeue(store, row, "resumed", tries=None, others=others)
    if waiting is None:
        text, fix = f"run {row.run_id} has just been changed", [f"treadle runs show {row.run_id}"]
        raise BlockedError(f"{text} by someone else", code="still_running", fix=fix)
    _enqueue(dispatcher, waiting, asked.ticket)
    return waiting


def sealing(site: FleetSite, env: Mapping[str, str]) -> FleetKey:
    """Return the key of a fleet; one that stays on this machine makes its own."""
    root = site.layout.root if site.layout else None
    return keys.read(env, root) if site.url else keys.make(env, root)


def _raised(asked: FleetOrder, budgets: Mapping[str, float]) -> FleetOrder:
    raised = structs.replace(asked.order.budgets, **budgets)
    return structs.replace(asked, order=structs.replace(asked.order, budgets=raised))


def _enqueue(dispatcher: Queue, row: RunRow, ticket: Ticket) -> None:
    """Tell the dispatcher; if it cannot be told now, the leader of the workers will."""
    with contextlib.suppress(StoreError):
        job = Job(ticket.project, row.run_id, row.claim_epoch)
        dispatcher.submit(job, ticket.priority)


def _publish(
    desk: Desk, waiting: Sequence[tuple[RunRow, FleetOrder]], ticket: Ticket, key: FleetKey
) -> None:
    """Bring to where workers find it what they need.

    The server tells of all its branches at every push, so nothing is pushed that it has.
    """
    head = waiting[0][0]
    place, base = (desk.project.repo, ticket.remote), head.base_commit or ""
    if not (head.base_branch and remote.contains(*place, head.base_branch, base)):
        remote.push_new(*place, base, [row.branch or "" for row, _ in waiting])
    shelf = Shelf(ticket.artifacts)
    for row, whole in waiting:
        shelf.put(archive.order_name(row.run_id), fleet_run.described(row, whole, key))
    enlist(desk, ticket.remote)
    reach("before_queued_row")


def enlist(desk: Desk, url: str) -> None:
    """Let the workers look after the project's runs; an operator may have removed it."""
    with desk.site.fleet() as store:
        fleet.add_project(store, desk.site.project, url, utc(desk.store.now()))


def _write_down(desk: Desk, row: RunRow, whole: FleetOrder, key: FleetKey) -> None:
    """Claim the task and write the run down, both or neither: of two who submit, one does."""

    def insert(store: Transaction | Store) -> None:
        fleet_run.insert(store, row, whole, key)

    if row.task_id is None:
        insert(desk.store)
    else:
        now = desk.store.now()
        claim.begin_run(desk.store, row.task_id, row.run_id, now, queues=insert)
    reach("after_queued_row")


def _take_back(desk: Desk, rows: Sequence[RunRow], ticket: Ticket) -> None:
    """Leave nothing of runs that cannot be queued, as far as it can be reached."""
    for row in rows:
        with contextlib.suppress(TreadleError):
            remote.push(desk.project.repo, ticket.remote, "", row.branch or "", row.base_commit)
        with contextlib.suppress(TreadleError):
            Shelf(ticket.artifacts).remove(archive.folder(row.run_id))


def shelf_url(desk: Desk) -> str:
    """Return where the archives of a project's runs are."""
    return desk.config.artifacts or f"file://{desk.project.layout.archives}"


def _ticket(desk: Desk) -> Ticket:
    if not desk.config.artifacts and desk.site.url:
        text = "artifacts is not set: workers on other machines need a place for a run's files"
        fix = ["export TREADLE_ARTIFACTS=s3://bucket/prefix"]
        raise ConfigError(text, details={"key": "artifacts"}, fix=fix)
    name, here = desk.config.fleet.remote, desk.project.repo
    url = remote.url_of(here, name)
    if url == str(here.common_dir) and name != FleetConfig().remote:
        text = f"fleet.remote = {name!r}: the repository has no such remote"
        raise ConfigError(text, details={"key": "fleet.remote"}, fix=["git remote -v"])
    return Ticket(
        project=desk.site.project,
        remote=url,
        artifacts=shelf_url(desk),
        priority=desk.priority,
        prefix=desk.project.repo.prefix,
        needs=desk.config.fleet.needs,
    )
