"""List everything that waits for a human, with the commands that resolve it."""

from collections.abc import Sequence

from treadle.hints import NamedTuple
from treadle.store.rows.question import QuestionRow
from treadle.store.task_reader import TaskReader


class Item(NamedTuple):
    """One thing that waits for a human."""

    item_id: str
    kind: str
    summary: str
    created_at: str
    run_id: str | None
    task_id: str | None
    options: tuple[str, ...]
    fix: tuple[str, ...]


def items(store: TaskReader) -> list[Item]:
    """Return what is open, oldest first."""
    return [item(row) for row in store.questions()]


def document(found: Sequence[Item]) -> dict[str, object]:
    """Return what waits as programs get it."""
    return {"items": [item._asdict() for item in found]}


def item(row: QuestionRow) -> Item:
    """Return a question with the commands that answer it."""
    choices = (f"treadle answer {row.question_id} --option {n}" for n in _numbers(row))
    said = () if row.options else (f'treadle answer {row.question_id} "TEXT"',)
    return Item(
        item_id=row.question_id,
        kind=row.kind,
        summary=row.summary,
        created_at=row.created_at,
        run_id=row.run_id,
        task_id=row.task_id,
        options=row.options,
        fix=(*row.fix, *choices, *said),
    )


def _numbers(row: QuestionRow) -> range:
    return range(1, len(row.options) + 1)
