"""A task with everything around it, as programs get it."""

from datetime import datetime

from treadle.store.store import Reader
from treadle.store.tasks import TaskRow
from treadle.tasks import reserve
from treadle.tasks.document import brief


def document(store: Reader, task: TaskRow, now: datetime) -> dict[str, object]:
    """Return one task with what it waits for and what became of it."""
    id_ = task.task_id
    return brief(task) | {
        "depends_on": [row.task_id for row in store.dependencies(id_)],
        "needed_by": [row.task_id for row in store.dependents(id_)],
        "runs": [row._asdict() for row in store.task_runs(id_)],
        "moves": [row._asdict() for row in store.task_moves(id_)],
        "reservations": [row._asdict() for row in reserve.live_of(store, id_, now)],
    }
