"""Ask a person about a step that failed too often, until somebody goes on with it."""

from datetime import datetime

from treadle.missions.decision import Halt
from treadle.missions.halt import retry_command
from treadle.missions.mission import Mission
from treadle.store.task_store import TaskStore
from treadle.tasks import questions
from treadle.tasks.owner import TREADLE
from treadle.tasks.questions import Question


def ask(store: TaskStore, stuck: Halt, now: datetime) -> None:
    """Put a step that waits for a decision on the desk, with the commands that decide."""
    question = Question("question", stuck.reason, fix=stuck.unblock, task_id=stuck.where.task_id)
    questions.ask(store, question, now)


def close(store: TaskStore, mission: Mission, task_id: str | None, now: datetime) -> None:
    """Take off the desk what was asked about a task, or about all of a mission's steps."""
    for item in store.questions():
        is_ours = retry_command(mission) in item.fix
        if is_ours and task_id in (None, item.task_id):
            store.answer(item.question_id, "the work goes on", TREADLE, now)
