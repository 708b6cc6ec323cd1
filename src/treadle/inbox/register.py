"""Take a file of the inbox in: read it, give it its place in a chain, remember it."""

import hashlib
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from treadle.contract.event import EventType
from treadle.engine import routine
from treadle.engine.run import Tools
from treadle.errors import FormatError
from treadle.ids import utc
from treadle.inbox import box, normalize
from treadle.inbox.message import Message, Place, place_in_name
from treadle.inbox.normalize import Note
from treadle.store.reader import Reader
from treadle.store.rows.message import MessageRow, waiting

# A message with one of these is not over: its file in the inbox is the message itself.
OPEN = ("waiting", "stopped", "refused", "held")


class Known(NamedTuple):
    """A message that the store knows, with the bytes of its file."""

    path: Path
    data: bytes
    message: Message
    row: MessageRow
    notes: tuple[Note, ...] = ()


class Duplicate(NamedTuple):
    """A file that was delivered before."""

    path: Path
    row: MessageRow


def register(tools: Tools, path: Path, parent: MessageRow | None = None) -> Known | Duplicate:
    """Return the message of a file; FormatError if it cannot be one."""
    store = tools.store
    data = box.read(path)
    named = place_in_name(path.name, store.has_chain)

    def new_chain() -> str:
        return parent.chain if parent else store.reserve_chain(tools.now())

    found = normalize.understand(data, named, new_chain)
    place, digest = found.message.place, hashlib.sha256(data).hexdigest()
    row = store.message(place.id)
    if row and row.status in OPEN and path.name == place.name:
        return Known(path, data, found.message, row, found.notes)
    if row and found.has_seq and _is_copy(tools, row, data, digest):
        return Duplicate(path, row)
    row = _add(tools, path, new_row(place, digest, parent, tools.now()))
    notes = found.notes
    if row.seq != place.seq and found.has_seq:
        notes += (Note(EventType.SEQ_REASSIGNED, f"{place.id} was taken; this is {row.seq}"),)
    message = found.message._replace(place=Place(row.chain, row.seq))
    return Known(path, data, message, row, notes)


def preview(store: Reader, path: Path, new_chain: Callable[[], str]) -> Message:
    """Return what a file says, without giving it a place."""
    named = place_in_name(path.name, store.has_chain)
    return normalize.understand(box.read(path), named, new_chain).message


def _is_copy(tools: Tools, row: MessageRow, data: bytes, digest: str) -> bool:
    if row.digest == digest:
        return True
    kept = [tools.layout.inbox_done / f"{row.message_id}.md"]
    if row.status == "done":  # a kill may have kept its file from moving there
        kept += [tools.layout.run(run).message / routine.NAME for run in row.run_ids[-1:]]
    return any(path.is_file() and _has(path, data) for path in kept)


def _has(path: Path, data: bytes) -> bool:
    try:
        return box.read(path) == data
    except FormatError:
        return False


def new_row(place: Place, digest: str, parent: MessageRow | None, now: datetime) -> MessageRow:
    """Return the row of a message that follows from another one, or from none."""
    row = waiting(place.chain, place.seq, utc(now))._replace(digest=digest)
    return row._replace(parent=parent.message_id, depth=parent.depth + 1) if parent else row


def _add(tools: Tools, path: Path, row: MessageRow) -> MessageRow:
    """Give the message the first number that neither the store nor another file has."""
    while _is_taken(path, row):
        row = row._replace(seq=row.seq + 1, message_id=f"{row.chain}-{row.seq + 1}")
    return tools.store.add_message(row)


def _is_taken(path: Path, row: MessageRow) -> bool:
    name = f"{row.message_id}.md"
    return path.name != name and os.path.lexists(path.with_name(name))
