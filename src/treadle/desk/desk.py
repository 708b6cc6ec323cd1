"""List everything that waits for a human, with the commands that resolve it."""

from collections.abc import Sequence

from treadle.store.questions import QuestionRow
from treadle.store.store import Reader

_TOLD = ("kind", "summary", "created_at", "run_id", "task_id", "options", "fix")


def items(store: Reader) -> list[QuestionRow]:
    """Return what is open, oldest first, each with the commands that answer it."""
    return [row._replace(fix=(*row.fix, *_answers(row))) for row in store.questions()]


def document(found: Sequence[QuestionRow]) -> dict[str, object]:
    """Return what waits as programs get it."""
    return {"items": [told(row) for row in found]}


def told(row: QuestionRow) -> dict[str, object]:
    """Return one item as programs get it."""
    return {"item_id": row.question_id} | {name: getattr(row, name) for name in _TOLD}


def _answers(row: QuestionRow) -> list[str]:
    numbers = range(1, len(row.options) + 1)
    words = [f"--option {number}" for number in numbers] or ['"TEXT"']
    return [f"treadle answer {row.question_id} {word}" for word in words]
