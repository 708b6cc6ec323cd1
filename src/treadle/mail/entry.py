"""What the index keeps of a letter."""

from treadle.errors import UsageError
from treadle.mail.letter import Letter, parse_time, time
from treadle.store.letters import LetterRow, Place
from treadle.tasks import markdown


def summary(letter: Letter) -> str:
    """Return what a letter is about, in one line."""
    return markdown.title(markdown.section(letter.body, "Summary") or letter.body)


def row(letter: Letter, place: Place, name: str, *, pending: bool) -> LetterRow:
    """Return what the index says about a letter."""
    return LetterRow(
        letter_id=None,
        box=place.box,
        agent=place.agent,
        folder=place.folder,
        name=name,
        sender=letter.sender,
        recipient=letter.to,
        intent=letter.intent,
        task_id=letter.task_id,
        status=letter.status,
        created_at=letter.created_at,
        message_id=letter.message_id,
        in_reply_to=letter.header("in_reply_to"),
        expires_at=_expiry(letter),
        summary=summary(letter),
        pending=pending,
    )


def references(original: LetterRow, thread_id: str | None) -> tuple[tuple[str, str | None], ...]:
    """Return the headers of an answer to a letter."""
    reference = original.message_id or original.name
    return (("in_reply_to", reference), ("thread_id", thread_id or reference))


def _expiry(letter: Letter) -> str | None:
    value = letter.header("expires_at")
    try:
        return time(parse_time(value)) if value else None
    except UsageError:
        return None
