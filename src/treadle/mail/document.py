"""Letters as programs get them."""

from collections.abc import Sequence
from pathlib import Path

from treadle.layout import Layout
from treadle.mail.letter import Letter
from treadle.store.rows.letter import LetterRow


def listed(layout: Layout, rows: Sequence[LetterRow]) -> dict[str, object]:
    """Return a list of letters."""
    root = shown(layout, layout.mail.root)
    return {"letters": [_brief(root, row) for row in rows]}


def brief(layout: Layout, row: LetterRow) -> dict[str, object]:
    """Return where one letter lies and what its headers say."""
    return _brief(shown(layout, layout.mail.root), row)


def whole(layout: Layout, row: LetterRow, letter: Letter) -> dict[str, object]:
    """Return one letter with all its words."""
    return brief(layout, row) | {"headers": dict(letter.extra), "body": letter.body}


def shown(layout: Layout, path: Path) -> str:
    """Return a path from the project's root, if it is inside."""
    return layout.relative(path) if path.is_relative_to(layout.root) else str(path)


def _brief(root: str, row: LetterRow) -> dict[str, object]:
    return {
        "file": f"{root}/{row.folder}/{row.name}",
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
