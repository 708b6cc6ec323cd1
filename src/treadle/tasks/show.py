"""Look at a task with everything around it."""

from treadle.hints import NamedTuple
from treadle.store.reader import Reader
from treadle.store.rows.run import RunRow
from treadle.store.rows.task import MoveRow, TaskRow
from treadle.tasks.change import find


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
