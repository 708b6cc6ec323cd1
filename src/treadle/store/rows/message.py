"""The rows of messages."""

import json
from typing import NamedTuple

from treadle.store.codec import Row, kept_in


@kept_in("messages")
class MessageRow(NamedTuple):
    """One message: its place in its chain, how far it got, and the runs that tried it.

    After a retry `after_run` is the last run that counts no more.
    """

    message_id: str
    chain: str
    seq: int
    status: str
    routine: str | None
    spec: str | None
    spec_digest: str | None
    digest: str | None
    parent: str | None
    depth: int
    run_ids: tuple[str, ...]
    reason: str | None
    created_at: str
    updated_at: str
    after_run: str | None = None


def waiting(chain: str, seq: int, now: str) -> MessageRow:
    """Return a message that nobody took yet; without a chain the store begins one for it."""
    nothing = (None, None, None, None, None)
    return MessageRow(f"{chain}-{seq}", chain, seq, "waiting", *nothing, 0, (), None, now, now)


def to_message(row: Row) -> MessageRow:
    """Read a message."""
    found = MessageRow._make(row)
    run_ids = json.loads(row[MessageRow._fields.index("run_ids")])
    return found._replace(run_ids=tuple(run_ids))
