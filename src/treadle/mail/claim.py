"""Claim letters with their tasks, acknowledge and archive them; nothing is ever deleted."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.errors import NotFoundError, TreadleError
from treadle.ids import EVERYBODY, utc
from treadle.layout import LOGS, MailLayout
from treadle.mail import find, index
from treadle.mail.letter import WORK, format_time, numbered
from treadle.store import letters as table
from treadle.store.letters import LetterRow
from treadle.store.store import Store, Transaction
from treadle.store.tasks import TaskRow
from treadle.tasks import claim as tasks
from treadle.tasks.task import Note, moved_record, write_views

# Work on a task that somebody else may be busy with; it has an owner of its own.
_ON_OTHERS = ("test", "review_code", "audit", "document")


class Claimed(NamedTuple):
    """A letter that is the claimant's now, and the task that came with it."""

    row: LetterRow
    task: TaskRow | None


def claim(store: Store, agent: str, text: str, now: datetime) -> Claimed:
    """Claim one letter, or say why it cannot be had."""
    row = find.find_letter(store, text, agent)
    _check(row, agent)
    found = _take(store, agent, now, row.letter_id)
    if found is None:
        raise index.gone(row.name)
    return found


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
    looked = not index.is_recent(store)
    if looked and index.is_stale(store, store.mail):
        refresh()
    while True:
        try:
            found = _take(store, agent, now, task_id=task_id)
        except NotFoundError:  # another program was faster; there may be more
            continue
        if found or looked:
            return found
        looked = True
        if index.is_stale(store, store.mail):
            refresh()


def _take(
    store: Store,
    agent: str,
    now: datetime,
    letter_id: int | None = None,
    task_id: str | None = None,
) -> Claimed | None:
    found = store.write(lambda tx: take_row(tx, agent, now, letter_id, task_id), alone=False)
    return _follow(store, agent, now, *found) if found else None


def take_row(
    tx: Transaction,
    agent: str,
    now: datetime,
    letter_id: int | None = None,
    task_id: str | None = None,
) -> tuple[LetterRow, Claimed] | None:
    """Give the oldest letter that can be had, and its task with it, to one claimant."""
    for row in table.candidates(tx, agent, format_time(now), letter_id, task_id):
        try:
            task = _take_task(tx, row, agent, now)
        except TreadleError:
            if letter_id is not None:
                raise
            continue
        claim_id = task.claim_id if task else f"{agent}-{row.letter_id}"
        claimed = row._replace(claim_id=claim_id)
        if moved := table.place(tx, claimed, index.inbox(agent), numbered(row.name)):
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


def _check(row: LetterRow, agent: str) -> None:
    """Refuse what is somebody else's, or nobody's to claim any more."""
    if row.recipient == EVERYBODY and row.intent not in WORK:
        said = f"{row.name} is for everybody; acknowledge your copy instead"
        raise index.not_yours(row, said, "ack")
    if row.recipient not in (agent, EVERYBODY):
        said = f"{row.name} is addressed to {row.recipient}, not to {agent}"
        raise index.not_yours(row, said)
    if row.box != "new":
        holder = f"claimed by {row.agent}" if row.box != "logs" else "archived"
        raise index.not_yours(row, f"{row.name} is {holder}")


def acknowledge(store: Store, mail: MailLayout, row: LetterRow, agent: str) -> LetterRow:
    """Say that a letter is taken care of: claimed work goes to WORKSPACE, the rest to LOGS."""
    holder = row.agent or row.recipient
    if holder not in (agent, EVERYBODY) or (row.box == "new" and row.recipient == EVERYBODY):
        said = f"{row.name} is {holder}'s to acknowledge, not {agent}'s"
        raise index.not_yours(row, said)
    if row.box == "logs":
        return row
    if row.box == "inbox" and row.intent in WORK:
        return index.move_letter(store, mail, row, index.workspace(agent))
    moved = index.move_letter(store, mail, row, index.logs(agent))
    _finish_broadcast(store, mail, row)
    return moved


def archive(store: Store, mail: MailLayout, row: LetterRow) -> LetterRow:
    """Put a letter into the LOGS, wherever it lies."""
    if row.box == "logs":
        return row
    return index.move_letter(store, mail, row, index.logs(row.agent))


def archive_task(store: Store, mail: MailLayout, task_id: str) -> list[LetterRow]:
    """Put every letter about a task into the LOGS."""
    rows = [row for row in table.of_task(store, task_id) if row.box != "logs"]
    return [archive(store, mail, row) for row in rows]


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
            if original.box == "new" and original.recipient == EVERYBODY:
                archive(store, mail, original)
