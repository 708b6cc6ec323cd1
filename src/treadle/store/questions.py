"""What waits for a human: questions about something, asked once and answered once."""

import json
from datetime import datetime
from typing import Literal, NamedTuple

from treadle.ids import utc
from treadle.store.tasks import count_up
from treadle.store.transaction import Reading, Writing, change, kept_in

SubjectKind = Literal["run", "task", "mission", "message", "chain", "letter", "project"]
Verb = Literal["approve", "reject", "resume", "again", "retry", "land", "rebase", "answer", "leave"]


class Subject(NamedTuple):
    """What a question is about; a dead letter is a message that goes by the name of its file."""

    kind: SubjectKind
    id: str


PROJECT = Subject("project", "")


class Action(NamedTuple):
    """One way to answer a question.

    `value` says how: what is approved, a budget such as `max_minutes=60`, or the words of an
    answer. `target` says with what: the task that is run again, the fleet that resumes a run.
    """

    verb: Verb
    value: str | None = None
    target: str | None = None


LEAVE = Action("leave")


def _actions(text: str) -> tuple[Action, ...]:
    return tuple(Action(*item) for item in json.loads(text))


@kept_in("questions", actions=_actions, look=lambda text: tuple(json.loads(text)))
class QuestionRow(NamedTuple):
    """Something that waits for a human; without actions it is answered in words.

    `matter` says what about the subject is asked, `look` has commands that help to decide, and
    `action` is what was chosen.
    """

    question_id: str
    kind: str
    summary: str
    actions: tuple[Action, ...]
    look: tuple[str, ...]
    run_id: str | None
    task_id: str | None
    created_at: str
    answered_at: str | None = None
    answer: str | None = None
    answered_by: str | None = None
    subject_kind: SubjectKind = "project"
    subject_id: str = ""
    matter: str | None = None
    action: str | None = None

    @property
    def subject(self) -> Subject:
        """Return what it is about."""
        return Subject(self.subject_kind, self.subject_id)

    @property
    def is_open(self) -> bool:
        """Tell whether nobody has answered yet."""
        return self.answered_at is None


class QuestionReader(Reading):
    """Tell what waits for a human."""

    def question(self, question_id: str) -> QuestionRow | None:
        """Return one question."""
        return self.first(QuestionRow, "question", question_id=question_id)

    def questions(self, open_only: bool = True) -> list[QuestionRow]:
        """Return what waits for a human, oldest first, or everything that ever did."""
        return self.records(QuestionRow, "open_questions" if open_only else "questions")

    def questions_about(self, subject: Subject) -> list[QuestionRow]:
        """Return everything that was ever asked about something, oldest first."""
        return self.records(QuestionRow, "questions_about", kind=subject.kind, id=subject.id)

    def question_ids(self) -> list[str]:
        """Return every question's id."""
        return [row[0] for row in self.all("question_ids")]


class QuestionStore(QuestionReader, Writing):
    """Ask and answer."""

    @change
    def ask(self, question: QuestionRow) -> str:
        """Ask a human and return the question's id; an open one is not asked twice."""
        same = self.one("same_question", **question._asdict())
        if same:
            return str(same[0])
        asked = question._replace(question_id=f"Q-{count_up(self, 'question')}")
        self.execute("insert_question", asked)
        return asked.question_id

    def answer(
        self, question_id: str, answer: str, by: str, now: datetime, verb: Verb | None = None
    ) -> bool:
        """Answer a question; False when it is not open."""
        values = {"question_id": question_id, "answer": answer, "by": by, "now": utc(now)}
        return self.execute("answer_question", values | {"action": verb}).rowcount > 0

    def settle(self, run_id: str, answer: str, by: str, now: datetime) -> int:
        """Answer all open questions of a run, because it has moved on."""
        values = {"run_id": run_id, "answer": answer, "by": by, "now": utc(now)}
        return self.execute("settle_questions", values).rowcount
