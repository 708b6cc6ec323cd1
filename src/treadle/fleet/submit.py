"""Hand runs to the fleet: write down everything a worker must know, then queue it."""

import contextlib
import hashlib
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from treadle.config.load import Loaded
from treadle.engine import letters
from treadle.engine.elsewhere import archive, queue
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.elsewhere.queue import Ticket
from treadle.engine.run import begin
from treadle.engine.run.order import Order
from treadle.errors import BlockedError, ConfigError, StoreError, TreadleError
from treadle.fleet.queue import Dispatcher, Job
from treadle.fleet.site import FleetSite
from treadle.git import remote, repo
from treadle.ids import new_run_id, utc
from treadle.mail import effect
from treadle.project import key as keys
from treadle.project import trust
from treadle.project.context import Context
from treadle.project.key import FleetKey
from treadle.store import fleet
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.tasks import claim


class Desk(NamedTuple):
    """What every submission of one command shares."""

    project: Context
    loaded: Loaded
    site: FleetSite
    store: Store
    dispatcher: Dispatcher | None
    priority: int = 0


def submit(desk: Desk, asked: Order) -> RunRow:
    """Queue a run; it is in the store before anything else knows of it."""
    if asked.script is not None:
        raise BlockedError(
            "a script routine works in the project itself, not in the fleet",
            code="not_for_fleet",
            fix=["treadle process"],
        )
    begin.check_possible(asked)
    _check_free(desk, asked.task_id)
    key = sealing(desk.site, desk.project.env)
    now, ticket = desk.store.now(), _ticket(desk)
    row = _row(desk, asked, now)
    try:
        _publish(desk, row, asked, ticket, now)
    except TreadleError:
        _take_back(desk, row, ticket)
        raise
    _announce(desk, ticket, now)
    queue.insert(desk.store, row, asked, ticket, key, now)
    if asked.task_id and desk.site.url:
        mail = desk.project.layout.mail
        effect.refresh(desk.store, mail, now)
        letters.hand_over(desk.store, mail, row)
    enqueue(desk, row, ticket)
    return row


def resume(desk: Desk, row: RunRow, changed: Order | None) -> RunRow:
    """Queue a stopped run of the fleet again, with raised budgets if need be."""
    key = sealing(desk.site, desk.project.env)
    ticket = queue.ticket_of(row, desk.store.kv(row.run_id), key)
    more: dict[str, object] = {queue.TRIES: None}
    if changed:
        more |= queue.signed(row, changed, ticket, key)
    waiting = queue.requeue(desk.store, row, "resumed", desk.store.now(), more)
    if waiting is None:
        raise BlockedError(
            f"run {row.run_id} has just been changed by someone else",
            code="still_running",
            fix=[f"treadle runs show {row.run_id}"],
        )
    enqueue(desk, waiting, ticket)
    return waiting


def sealing(site: FleetSite, env: Mapping[str, str]) -> FleetKey:
    """Return the key of a fleet; one that stays on this machine makes its own."""
    root = site.layout.root if site.layout else None
    return keys.read(env, root) if site.url else keys.make(env, root)


def enqueue(desk: Desk, row: RunRow, ticket: Ticket) -> None:
    """Tell the dispatcher; if it cannot be told now, the leader of the workers will."""
    if desk.dispatcher is None:
        return
    job = Job(ticket.project, row.run_id, row.claim_epoch)
    with contextlib.suppress(StoreError):
        desk.dispatcher.submit(job, ticket.priority)


def _check_free(desk: Desk, task_id: str | None) -> None:
    """Refuse a task that a run waits or works for already."""
    task = desk.store.task(task_id) if task_id else None
    row = desk.store.run(task.claim_id) if task and task.claim_id else None
    if row and (row.status == "running" or queue.is_queued(row, desk.store.kv(row.run_id))):
        raise BlockedError(
            f"run {row.run_id} waits or works for {task_id} already",
            code="still_running",
            fix=[f"treadle runs show {row.run_id}", f"treadle stop {row.run_id}"],
        )


def _publish(desk: Desk, row: RunRow, asked: Order, ticket: Ticket, now: datetime) -> None:
    """Bring to where workers find it what they need, and claim the task."""
    remote.push(desk.project.repo, ticket.remote, row.base_commit or "", row.branch or "", None)
    place = f"{archive.folder(row.run_id)}order.json"
    Shelf(ticket.artifacts).put(place, msgspec.json.encode(asked))
    if asked.task_id:
        claim.begin_run(desk.store, asked.task_id, row.run_id, now)


def _take_back(desk: Desk, row: RunRow, ticket: Ticket) -> None:
    """Leave nothing of a run that cannot be queued, as far as it can be reached."""
    with contextlib.suppress(TreadleError):
        remote.push(desk.project.repo, ticket.remote, "", row.branch or "", row.base_commit)
    with contextlib.suppress(TreadleError):
        Shelf(ticket.artifacts).remove(archive.folder(row.run_id))


def _announce(desk: Desk, ticket: Ticket, now: datetime) -> None:
    """Let the workers look for this project's runs."""
    with desk.site.fleet() as store:
        fleet.add_project(store, ticket.project, ticket.remote, utc(now))


def _ticket(desk: Desk) -> Ticket:
    config = desk.loaded.config
    return Ticket(
        project=desk.site.project,
        remote=remote.url_of(desk.project.repo, config.fleet.remote),
        artifacts=_artifacts(desk),
        priority=desk.priority,
        fingerprint=_fingerprint(desk),
    )


def _artifacts(desk: Desk) -> str:
    if url := desk.loaded.config.artifacts:
        return url
    if desk.site.url:
        raise ConfigError(
            "artifacts is not set: workers on other machines need a place for a run's files",
            details={"key": "artifacts"},
            fix=["export TREADLE_ARTIFACTS=s3://bucket/prefix"],
        )
    return f"file://{desk.project.layout.archives}"


def _fingerprint(desk: Desk) -> str:
    """Return the digest of the configuration that the user trusted when the run was queued."""
    said = [desk.loaded.config, trust.commands(desk.loaded)]
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()


def _row(desk: Desk, asked: Order, now: datetime) -> RunRow:
    head = repo.head(desk.project.repo)
    run_id = new_run_id(now, desk.store.last_run_id(), secrets.randbits(24))
    layout = desk.project.layout
    return RunRow(
        run_id=run_id,
        created_at=utc(now),
        goal=asked.goal,
        status="stopped",
        iteration=1,
        current_step_index=0,
        verdict=None,
        run_dir=layout.relative(layout.run(run_id).folder),
        task_id=asked.task_id,
        message_id=asked.message.id if asked.message else None,
        routine=asked.message.routine if asked.message else "develop",
        base_commit=head.commit,
        base_branch=head.branch,
        branch=asked.workspace.branch.format(run_id=run_id),
        head_commit=head.commit,
    )
