"""Write tasks, questions and what was reported of missions."""

from collections.abc import Sequence
from datetime import datetime

from treadle.ids import utc
from treadle.store import task_changes
from treadle.store.rows.mission import MissionStepRow
from treadle.store.rows.question import QuestionRow
from treadle.store.rows.task import MoveRow, TaskRow
from treadle.store.task_reader import TaskReader
from treadle.store.writing import Writing


class TaskStore(Writing, TaskReader):
    """Read and write tasks and the desk."""

    def reserve_task_id(self) -> str:
        """Return a task id like `T-7` that nobody else will get."""
        return self._write(task_changes.reserve_id)

    def add_task(self, task: TaskRow) -> TaskRow | None:
        """Add a task at the end; an empty id gets the next free one, a taken one gives None."""
        return self._write(lambda tx: task_changes.add(tx, task))

    def swap_task(self, before: TaskRow, after: TaskRow, move: MoveRow | None = None) -> bool:
        """Change a task's lane, owner and claim if they still are as in `before`."""
        return self._write(lambda tx: task_changes.swap(tx, before, after, move))

    def link_task(self, task_id: str, depends_on: str) -> tuple[str, ...]:
        """Make a task wait for another; a circle is refused and returned."""
        return self._write(lambda tx: task_changes.link(tx, task_id, depends_on))

    def unlink_task(self, task_id: str, depends_on: str) -> bool:
        """Let a task wait no longer; False when it did not."""
        return self._write(lambda tx: task_changes.unlink(tx, task_id, depends_on))

    def adopt_tasks(self, tasks: Sequence[TaskRow], links: Sequence[tuple[str, str]]) -> None:
        """Make a mission's tasks be as their files describe them; lanes and claims stay."""
        self._write(lambda tx: task_changes.adopt(tx, tasks, links))

    def report_step(self, row: MissionStepRow) -> None:
        """Remember that a mission's step failed or is blocked."""
        self._write(lambda tx: task_changes.report_step(tx, row))

    def clear_step(self, mission: str, step: str) -> bool:
        """Forget what was reported of a mission's step; False when it was nothing."""
        return self._write(lambda tx: task_changes.clear_step(tx, mission, step))

    def ask(self, question: QuestionRow) -> str:
        """Ask a human and return the question's id; an open one is not asked twice."""
        return self._write(lambda tx: task_changes.ask(tx, question))

    def answer(self, question_id: str, answer: str, by: str, now: datetime) -> bool:
        """Answer a question; False when it is not open."""
        return self._write(lambda tx: task_changes.answer(tx, question_id, answer, by, utc(now)))

    def settle(self, run_id: str, answer: str, by: str, now: datetime) -> int:
        """Answer all open questions of a run, because it has moved on."""
        return self._write(lambda tx: task_changes.settle(tx, run_id, answer, by, utc(now)))
