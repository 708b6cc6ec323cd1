"""The rows of what waits for a human."""

import json
from typing import NamedTuple

from treadle.store.codec import Row, kept_in


@kept_in("questions")
class QuestionRow(NamedTuple):
    """Something that waits for a human, with answers to choose from and commands that help."""

    question_id: str
    kind: str
    summary: str
    options: tuple[str, ...]
    fix: tuple[str, ...]
    run_id: str | None
    task_id: str | None
    created_at: str
    answered_at: str | None = None
    answer: str | None = None
    answered_by: str | None = None


def to_question(row: Row) -> QuestionRow:
    """Read a question."""
    found = QuestionRow._make(row)
    options, fix = (row[QuestionRow._fields.index(name)] for name in ("options", "fix"))
    return found._replace(options=tuple(json.loads(options)), fix=tuple(json.loads(fix)))
