"""The rows of letters and of their folders."""

from typing import NamedTuple

from treadle.store.codec import Row, kept_in


@kept_in("mail_index")
class LetterRow(NamedTuple):
    """Where one letter lies and what its headers say; `pending` while its effect is not made."""

    letter_id: int | None
    box: str
    agent: str | None
    folder: str
    name: str
    sender: str
    recipient: str
    intent: str
    task_id: str | None
    status: str
    created_at: str
    message_id: str | None
    in_reply_to: str | None
    expires_at: str | None
    summary: str
    claim_id: str | None = None
    copy_of: str | None = None
    question_id: str | None = None
    pending: bool = False


@kept_in("mail_folders")
class FolderRow(NamedTuple):
    """How a folder of letters looked when it was last read."""

    folder: str
    mtime_ns: int
    seen_ns: int


def to_letter(row: Row) -> LetterRow:
    """Read where a letter lies."""
    found = LetterRow._make(row)
    return found._replace(pending=bool(found.pending))
