"""Look at a task with everything around it."""

from datetime import datetime

from treadle.hints import NamedTuple
from treadle.store.reader import Reader
from treadle.store.rows.run import RunRow
from treadle.store.rows.task import MoveRow, TaskRow
from treadle.tasks import reserve
from treadle.tasks.change import find
from treadle.tasks.document import brief


class Shown(NamedTuple):
    """A task with everything around it."""

    task: TaskRow
    depends_on: tuple[TaskRow, ...]
    needed_by: tuple[TaskRow, ...]
    runs: tuple[RunRow, ...]
    moves: tuple[MoveRow, ...]


def show(store: Reader, task_id: str) -> Shown:
    """Return a task, what it waits for, what waits for it, its runs and its moves."""
    return Shown(
        task=find(store, task_id),
        depends_on=tuple(store.dependencies(task_id)),
        needed_by=tuple(store.dependents(task_id)),
        runs=tuple(store.task_runs(task_id)),
        moves=tuple(store.task_moves(task_id)),
    )


def document(store: Reader, found: Shown, now: datetime) -> dict[str, object]:
    """Return one task with what it waits for and what became of it."""
    kept = reserve.live_of(store, found.task.task_id, now)
    return brief(found.task) | {
        "depends_on": [row.task_id for row in found.depends_on],
        "needed_by": [row.task_id for row in found.needed_by],
        "runs": [row._asdict() for row in found.runs],
        "moves": [row._asdict() for row in found.moves],
        "reservations": [row._asdict() for row in kept],
    }
