"""Letters as programs get them."""

from collections.abc import Sequence

from treadle.layout import Layout
from treadle.mail.letter import Letter
from treadle.store.letters import LetterRow


def listed(layout: Layout, rows: Sequence[LetterRow]) -> dict[str, object]:
    """Return a list of letters."""
    return {"letters": [brief(layout, row) for row in rows]}


def brief(layout: Layout, row: LetterRow) -> dict[str, object]:
    """Return where one letter lies and what its headers say."""
    return {
        "file": f"{layout.shown(layout.mail.root)}/{row.folder}/{row.name}",
        "message_id": row.message_id,
        "from": row.sender,
        "to": row.recipient,
        "intent": row.intent,
        "task_id": row.task_id,
        "status": row.status,
        "created_at": row.created_at,
        "box": row.box,
        "holder": row.agent,
        "summary": row.summary,
    }


def whole(layout: Layout, row: LetterRow, letter: Letter) -> dict[str, object]:
    """Return one letter with all its words."""
    return brief(layout, row) | {"headers": dict(letter.extra), "body": letter.body}
