"""List everything that waits for a human, with the commands that resolve it."""

from collections.abc import Sequence

from treadle.store.questions import QuestionRow
from treadle.store.store import Reader
from treadle.tasks import questions

_TOLD = ("kind", "summary", "created_at", "run_id", "task_id")


def items(store: Reader) -> list[QuestionRow]:
    """Return what is open, oldest first."""
    return store.questions()


def document(found: Sequence[QuestionRow]) -> dict[str, object]:
    """Return what waits as programs get it."""
    return {"items": [told(row) for row in found]}


def told(row: QuestionRow) -> dict[str, object]:
    """Return one item as programs get it."""
    return {
        "item_id": row.question_id,
        **{name: getattr(row, name) for name in _TOLD},
        "subject": row.subject._asdict(),
        "actions": [
            {
                "action": action.verb,
                "label": questions.label(action, row.subject),
                "command": questions.command(action, row.subject),
            }
            for action in row.actions
        ],
        "options": questions.labels(row),
        "fix": commands(row),
    }


def commands(row: QuestionRow) -> tuple[str, ...]:
    """Return every command that helps with an item, the answers last."""
    numbers = range(1, len(row.actions) + 1)
    words = [f"--option {number}" for number in numbers] or ['"TEXT"']
    answers = (f"treadle answer {row.question_id} {word}" for word in words)
    return (*questions.commands(row), *answers)
