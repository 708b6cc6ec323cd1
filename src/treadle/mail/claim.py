"""Claim letters with their tasks, acknowledge and archive them; nothing is ever deleted."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.errors import BlockedError, NotFoundError, TreadleError, argument
from treadle.ids import EVERYBODY, local, utc
from treadle.layout import LOGS, MailLayout
from treadle.mail import find, index
from treadle.mail.letter import WORK, format_time, names_for
from treadle.store import letters as table
from treadle.store.letters import LetterRow
from treadle.store.store import Store, Transaction
from treadle.store.tasks import TaskRow
from treadle.tasks import claim as tasks
from treadle.tasks import files, lanes, statefile
from treadle.tasks.task import Note, find_task, moved_record, write_views

HELD = ("inbox", "workspace")
# Work on a task that somebody else may be busy with; it has an owner of its own.
_ON_OTHERS = ("test", "review_code", "audit", "document")


class Claimed(NamedTuple):
    """A letter that is the claimant's now, and the task that came with it."""

    row: LetterRow
    task: TaskRow | None


def claim(store: Store, agent: str, text: str, now: datetime) -> Claimed:
    """Claim one letter, or say why it cannot be had; what the agent has, it is given again."""
    row = find.find_letter(store, text, agent)
    if row.agent == agent and row.box in HELD:
        return _again(store, row, agent, now)
    _check(store, row, agent)
    try:
        found = _take(store, agent, now, row.letter_id)
    except BlockedError as error:
        task = store.task(row.task_id or "")
        if error.code == "task_held" and task:
            raise _held(store, row, task.owner) from error
        raise
    if found is None:
        raise index.gone(row.name)
    return found


def claim_of_task(
    store: Store, agent: str, task_id: str, now: datetime, refresh: Callable[[], object]
) -> Claimed | None:
    """Claim the next letter about a task, or give again what the agent has of it."""
    task = store.task(task_id)
    if task and task.owner == agent:
        tasks.renew(store, task_id, task.claim_id or "", now)  # it has not been given back yet
    if found := claim_next(store, agent, now, refresh, task_id):
        return found
    rows, task = table.of_task(store, task_id), store.task(task_id)
    if task is None and not rows:
        raise lanes.unknown_task(task_id, store.task_ids())
    mine = [row for row in rows if row.agent == agent and row.box in HELD and row.intent in WORK]
    if mine:
        return _again(store, mine[0], agent, now)
    work = [row for row in rows if row.intent in WORK and row.box != "logs"]
    if work and task and tasks.is_held(task, now) and task.owner != agent:
        raise _held(store, work[0], task.owner)
    return None


def _again(store: Store, row: LetterRow, agent: str, now: datetime) -> Claimed:
    """Return what an agent has claimed before; its task stays, or becomes, its own."""
    task = store.task(row.task_id or "") if row.intent in WORK else None
    claim_id = row.claim_id or f"{agent}-{row.letter_id}"
    if task is None or task.lane not in ("planned", *lanes.HELD) or row.intent in _ON_OTHERS:
        return Claimed(row._replace(claim_id=claim_id), None)
    if task.owner == agent and tasks.renew(store, task.task_id, task.claim_id or "", now):
        return Claimed(row._replace(claim_id=task.claim_id), task)
    if tasks.is_held(task, now):
        raise _held(store, row, task.owner)
    task = tasks.claim(store, task.task_id, agent, now)
    return Claimed(row._replace(claim_id=task.claim_id), task)


def _held(store: Store, row: LetterRow, holder: str | None) -> BlockedError:
    """Say who has a letter, or its task, and until when."""
    task = store.task(row.task_id or "")
    until = task.lease_until if task and task.owner == holder else None
    said = f" until {local(until)}" if until else ""
    return BlockedError(
        f"{row.name} is held by {holder}{said}",
        code="held",
        fix=[f"treadle mail read {argument(row.name)}"],
        details={
            "file": f"{row.folder}/{row.name}",
            "task_id": row.task_id,
            "holder": holder,
            "until": until,
        },
    )


def claim_next(
    store: Store,
    agent: str,
    now: datetime,
    refresh: Callable[[], object],
    task_id: str | None = None,
) -> Claimed | None:
    """Claim the oldest letter that can be had; None when there is none, even after a `refresh`.

    Looking into the folders before every claim would cost more than the claim: once a second
    is often enough, and whenever nothing is left.
    """
    looks = iter((refresh, lambda: index.give_back(store, store.mail, now, expired=True)))
    if not index.is_recent(store):
        next(looks)()
    while True:
        try:
            found = _take(store, agent, now, task_id=task_id)
        except NotFoundError:  # another program was faster; there may be more
            continue
        look = None if found else next(looks, None)
        if look is None:
            return found
        look()


def _take(
    store: Store,
    agent: str,
    now: datetime,
    letter_id: int | None = None,
    task_id: str | None = None,
) -> Claimed | None:
    mail, looked = store.mail, set[str]()

    def take(tx: Transaction) -> tuple[LetterRow, Claimed] | str | None:
        return take_row(tx, mail, agent, now, letter_id, task_id, looked)

    while isinstance(found := store.write(take, alone=False), str):
        files.take_over(store, mail, found, now)
        looked.add(found)
    return _follow(store, agent, now, *found) if found else None


def take_row(
    tx: Transaction,
    mail: MailLayout,
    agent: str,
    now: datetime,
    letter_id: int | None = None,
    task_id: str | None = None,
    looked: Collection[str] = (),
) -> tuple[LetterRow, Claimed] | str | None:
    """Give the oldest letter that can be had, and its task with it, to one claimant.

    A task whose files somebody has changed is returned to be looked at first.
    """
    mine = index.inbox(mail, agent)
    for row in table.candidates(tx, agent, format_time(now), letter_id, task_id):
        about = row.task_id if row.intent in WORK and row.task_id not in looked else None
        if about and statefile.is_unseen(tx, mail, about):
            return about
        try:
            task = _take_task(tx, row, agent, now)
        except TreadleError:
            if letter_id is not None:
                raise
            continue
        claim_id = task.claim_id if task else f"{agent}-{row.letter_id}"
        claimed = row._replace(claim_id=claim_id, moved_at=utc(now))
        if moved := table.place(tx, claimed, mine, names_for(mail, row.name)):
            return row, Claimed(moved, task)
    return None


def _follow(store: Store, agent: str, now: datetime, before: LetterRow, found: Claimed) -> Claimed:
    """Let the file follow its row; a letter that is gone takes its task's claim with it."""
    task = found.task
    try:
        row = index.follow_file(store, store.mail, before, found.row)
    except NotFoundError:
        if task:
            tasks.release(store, task.task_id, tasks.Holder(agent, task.claim_id), now)
        raise
    if task:
        write_views(store, store.mail, task.task_id)
    return Claimed(row, task)


def _take_task(tx: Transaction, row: LetterRow, agent: str, now: datetime) -> TaskRow | None:
    """Take a letter's task along; whoever changes it at the same time is asked about anew."""
    while True:
        task = tx.task(row.task_id or "")
        if task is None or row.intent not in WORK:
            return None
        if row.intent in _ON_OTHERS and (task.lane != "planned" or task.owner):
            return None
        after = task
        if not (tasks.is_held(task, now) and task.owner == agent):
            after = tasks.taken(tx, task, agent, now)._replace(updated_at=utc(now))
        move = moved_record(task, after, Note(agent, f"letter {row.name}"))
        if tx.swap_task(task, after, move):
            return after


def _check(store: Store, row: LetterRow, agent: str) -> None:
    """Refuse what is somebody else's, or nobody's to claim any more."""
    if row.recipient == EVERYBODY and row.intent not in WORK:
        said = f"{row.name} is for everybody; acknowledge your copy instead"
        raise index.not_yours(row, said, "ack")
    if row.recipient not in (agent, EVERYBODY):
        said = f"{row.name} is addressed to {row.recipient}, not to {agent}"
        raise index.not_yours(row, said)
    if row.intent in WORK and row.task_id is None:
        said = f"{row.name} asks for work and names no task; a person has been asked which"
        raise BlockedError(said, code="task_id_missing", fix=["treadle desk"])
    if row.box == "logs":
        raise index.not_yours(row, f"{row.name} is archived")
    if row.box != "new":
        raise _held(store, row, row.agent)


def acknowledge(store: Store, mail: MailLayout, row: LetterRow, agent: str) -> LetterRow:
    """Say that a letter is taken care of: claimed work goes to WORKSPACE, the rest to LOGS."""
    holder = row.agent or row.recipient
    if holder not in (agent, EVERYBODY) or (row.box == "new" and row.recipient == EVERYBODY):
        said = f"{row.name} is {holder}'s to acknowledge, not {agent}'s"
        raise index.not_yours(row, said)
    if row.box == "logs":
        return row
    row = row._replace(moved_at=utc(store.now()))
    if row.box == "inbox" and row.intent in WORK:
        return index.move_letter(store, mail, row, index.workspace(mail, agent))
    return archive(store, mail, row, agent)


def archive(store: Store, mail: MailLayout, row: LetterRow, agent: str | None = None) -> LetterRow:
    """Put a letter into the LOGS, wherever it lies now."""
    now_at = next(iter(table.with_id(store, row.letter_id or 0)), row)
    row = now_at._replace(moved_at=row.moved_at)
    if row.box == "logs":
        return row
    moved = index.move_letter(store, mail, row, index.logs(agent or row.agent))
    _finish_broadcast(store, mail, row)
    return moved


def archive_task(store: Store, mail: MailLayout, task_id: str) -> list[LetterRow]:
    """Put every letter about a task into the LOGS."""
    rows = table.of_task(store, task_id)
    if not rows:
        find_task(store, task_id)
    return [archive(store, mail, row) for row in rows if row.box != "logs"]


def archive_older(store: Store, mail: MailLayout, age: timedelta, now: datetime) -> list[LetterRow]:
    """Sort letters in the LOGS that are older than this into a folder for each month."""
    return [
        index.move_letter(store, mail, row, index.logs(row.agent, row.created_at[:7]))
        for row in table.older(store, LOGS, format_time(now - age))
    ]


def _finish_broadcast(store: Store, mail: MailLayout, row: LetterRow) -> None:
    """Put a letter to all into the LOGS when everyone has acknowledged a copy."""
    if row.copy_of is None:
        return
    if all(copy.box == "logs" for copy in table.copies(store, row.copy_of)):
        for original in table.named(store, row.copy_of):
            if original.box == "new":
                archive(store, mail, original)
