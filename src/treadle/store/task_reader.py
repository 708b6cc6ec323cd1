"""Read tasks, what waits for a human, and how missions stand."""

from treadle.store.reading import Reading
from treadle.store.rows.mission import LaneRow, MissionStepRow
from treadle.store.rows.question import QuestionRow, to_question
from treadle.store.rows.task import MoveRow, TaskRow, to_move, to_task


class TaskReader(Reading):
    """Answer questions about tasks and the desk."""

    def task(self, task_id: str) -> TaskRow | None:
        """Return one task."""
        row = self._one("task", task_id=task_id)
        return to_task(row) if row else None

    def tasks(self, lane: str | None = None) -> list[TaskRow]:
        """Return the tasks, or those in one lane, in order."""
        rows = self._all("tasks_in_lane", lane=lane) if lane else self._all("tasks")
        return [to_task(row) for row in rows]

    def tasks_to_renew(self, owner: str, now: str, soon: str) -> list[TaskRow]:
        """Return an owner's tasks whose lease ends soon."""
        rows = self._all("tasks_to_renew", owner=owner, now=now, soon=soon)
        return [to_task(row) for row in rows]

    def task_ids(self) -> list[str]:
        """Return every task's id."""
        return [row[0] for row in self._all("task_ids")]

    def ready_tasks(self, now: str) -> list[TaskRow]:
        """Return the planned tasks that nobody holds and that wait for nothing, in order."""
        return [to_task(row) for row in self._all("ready_tasks", now=now)]

    def dependencies(self, task_id: str) -> list[TaskRow]:
        """Return the tasks that must be done before this one."""
        return [to_task(row) for row in self._all("dependencies", task_id=task_id)]

    def dependents(self, task_id: str) -> list[TaskRow]:
        """Return the tasks that wait for this one."""
        return [to_task(row) for row in self._all("dependents", task_id=task_id)]

    def task_moves(self, task_id: str) -> list[MoveRow]:
        """Return how a task went from lane to lane."""
        return [to_move(row) for row in self._all("task_moves", task_id=task_id)]

    def mission_lanes(self, mission: str) -> list[LaneRow]:
        """Return where the tasks of a mission stand."""
        return [LaneRow._make(row) for row in self._all("mission_lanes", mission=mission)]

    def mission_steps(self, mission: str) -> list[MissionStepRow]:
        """Return what was reported of a mission's steps that are not done."""
        rows = [MissionStepRow._make(row) for row in self._all("mission_steps", mission=mission)]
        return [row._replace(is_blocked=bool(row.is_blocked)) for row in rows]

    def question(self, question_id: str) -> QuestionRow | None:
        """Return one question."""
        row = self._one("question", question_id=question_id)
        return to_question(row) if row else None

    def questions(self, open_only: bool = True) -> list[QuestionRow]:
        """Return what waits for a human, oldest first, or everything that ever did."""
        rows = self._all("open_questions" if open_only else "questions")
        return [to_question(row) for row in rows]

    def question_ids(self) -> list[str]:
        """Return every question's id."""
        return [row[0] for row in self._all("question_ids")]
