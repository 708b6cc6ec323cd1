"""Acknowledge and archive letters; nothing is ever deleted."""

from datetime import datetime, timedelta

from treadle.layout import LOGS, MailLayout
from treadle.mail import address, intent, move, place
from treadle.mail.letter import time
from treadle.store import letters as index
from treadle.store.letters import LetterRow
from treadle.store.store import Store

_PAGE = 500


def acknowledge(store: Store, mail: MailLayout, row: LetterRow, agent: str) -> LetterRow:
    """Say that a letter is taken care of: claimed work goes to WORKSPACE, the rest to LOGS."""
    holder = row.agent or row.recipient
    if holder not in (agent, address.ALL) or (row.box == "new" and row.recipient == address.ALL):
        said = f"{row.name} is {holder}'s to acknowledge, not {agent}'s"
        raise place.not_yours(row, said)
    if row.box == "logs":
        return row
    if row.box == "inbox" and row.intent in intent.WORK:
        return move.move(store, mail, row, place.workspace(agent))
    moved = move.move(store, mail, row, place.logs(agent))
    _finish_broadcast(store, mail, row)
    return moved


def archive(store: Store, mail: MailLayout, row: LetterRow) -> LetterRow:
    """Put a letter into the LOGS, wherever it lies."""
    if row.box == "logs":
        return row
    return move.move(store, mail, row, place.logs(row.agent))


def archive_task(store: Store, mail: MailLayout, task_id: str) -> list[LetterRow]:
    """Put every letter about a task into the LOGS."""
    rows = [row for row in index.of_task(store, task_id) if row.box != "logs"]
    return [archive(store, mail, row) for row in rows]


def archive_older(store: Store, mail: MailLayout, age: timedelta, now: datetime) -> list[LetterRow]:
    """Sort letters in the LOGS that are older than this into a folder for each month."""
    before, moved = (time(now - age), 0), []
    while page := index.in_box(store, "logs", _PAGE, before):
        for row in page:
            if row.folder == LOGS:
                month = place.logs(row.agent, row.created_at[:7])
                moved.append(move.move(store, mail, row, month))
        before = (page[-1].created_at, page[-1].letter_id or 0)
    return moved


def _finish_broadcast(store: Store, mail: MailLayout, row: LetterRow) -> None:
    """Put a letter to all into the LOGS when everyone has acknowledged a copy."""
    if row.copy_of is None:
        return
    if all(copy.box == "logs" for copy in index.copies(store, row.copy_of)):
        for original in index.named(store, row.copy_of):
            if original.box == "new" and original.recipient == address.ALL:
                archive(store, mail, original)
