"""What waits for a human: questions about something, asked once and answered once."""

import json
from datetime import datetime
from typing import Literal, NamedTuple

from treadle.ids import HUMAN, utc
from treadle.store.tasks import TaskReader
from treadle.store.transaction import Reading, Writing, change, count_up, kept_in

SubjectKind = Literal[
    "run", "task", "mission", "message", "spec", "chain", "letter", "agent", "project"
]
Verb = Literal[
    "approve", "reject", "resume", "again", "retry", "land", "pr", "rebase", "answer", "leave"
]


class Subject(NamedTuple):
    """What a question is about; a dead letter is a message that goes by the name of its file."""

    kind: SubjectKind
    id: str


PROJECT = Subject("project", "")


class Action(NamedTuple):
    """One way to answer a question.

    `value` says how: what is approved, a budget such as `max_minutes=60`, or the words of an
    answer. `target` says with what: the task that is run again, the fleet that resumes a run, the
    run that tries a tool again.
    """

    verb: Verb
    value: str | None = None
    target: str | None = None

    def label(self, subject: Subject) -> str:
        """Return what it is called where one can choose it."""
        if self.verb == "answer":
            return self.value or "answer"
        if self.verb == "leave":
            return "leave it"
        if self.verb == "reject" and subject.kind == "spec":
            return "leave out"
        is_mail = subject.kind in ("message", "chain")
        return "drop it" if self.verb == "reject" and is_mail else self.verb


LEAVE = Action("leave")


def _actions(text: str) -> tuple[Action, ...]:
    return tuple(Action(*item) for item in json.loads(text))


@kept_in("questions", actions=_actions, look=lambda text: tuple(json.loads(text)))
class QuestionRow(NamedTuple):
    """Something that waits for a human; without actions it is answered in words.

    `matter` says what about the subject is asked, `look` has commands that help to decide, and
    `action` is what was chosen. While a person's answer is being carried out, `answered_by` is the
    process that does it, and the question is open until that is done.
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

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the answers to choose from, in the order of their numbers."""
        return tuple(action.label(self.subject) for action in self.actions)

    @property
    def words(self) -> str | None:
        """Return what a person said with an answer, beyond which action it is."""
        is_more = self.subject_kind == "letter" or self.answer not in (self.action, *self.labels)
        is_said = is_more and (self.is_open or self.answered_by == HUMAN)
        return self.answer if is_said else None

    @property
    def answers(self) -> tuple[str, ...]:
        """Return the command for each answer; each is the whole thing."""
        verbs = [action.verb for action in self.actions]
        words = [
            verb if verbs.count(verb) == 1 and verb != "answer" else f"--option {number}"
            for number, verb in enumerate(verbs, 1)
        ]
        return tuple(f"treadle answer {self.question_id} {it}" for it in words or ['"your answer"'])

    @property
    def every_command(self) -> tuple[str, ...]:
        """Return every command that helps with it: the one that shows it, then the answers."""
        return (f"treadle desk show {self.question_id}", *self.answers)


class QuestionReader(Reading):
    """Tell what waits for a human."""

    def question(self, question_id: str) -> QuestionRow | None:
        """Return one question."""
        return self.first(QuestionRow, "question", question_id=question_id)

    def questions(self, open_only: bool = True) -> list[QuestionRow]:
        """Return what waits for a human, oldest first, or everything that ever did."""
        return self.records(QuestionRow, "open_questions" if open_only else "questions")

    def desk(self) -> list[QuestionRow]:
        """Return what waits for a human, where one cause that stops many runs is one item."""
        return self.records(QuestionRow, "desk")

    def questions_about(self, subject: Subject) -> list[QuestionRow]:
        """Return everything that was ever asked about something, oldest first."""
        return self.records(QuestionRow, "questions_about", kind=subject.kind, id=subject.id)

    def questions_of_mission(self, mission: str) -> list[QuestionRow]:
        """Return everything that was ever asked about a mission or its tasks, oldest first."""
        return self.records(QuestionRow, "questions_of_mission", mission=mission)

    def questions_of_task(self, task_id: str) -> list[QuestionRow]:
        """Return everything that was ever asked about a task, oldest first."""
        return self.records(QuestionRow, "questions_of_task", task_id=task_id)

    def question_ids(self) -> list[str]:
        """Return every question's id."""
        return [row[0] for row in self.all("question_ids")]


class WorkReader(TaskReader, QuestionReader):
    """Tell what there is to do and what waits for a human: all that a mission's next step needs."""


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

    def restate(self, question_id: str, summary: str, look: tuple[str, ...]) -> None:
        """Write down what a question says by now."""
        values = {"question_id": question_id, "summary": summary, "look": look}
        self.execute("restate_question", values)

    def answer(
        self, question_id: str, answer: str, by: str, now: datetime, verb: Verb | None = None
    ) -> bool:
        """Answer a question; False when it is not open."""
        values = {"question_id": question_id, "answer": answer, "by": by, "now": utc(now)}
        return self.execute("answer_question", values | {"action": verb}).rowcount > 0

    def take_question(self, row: QuestionRow, answer: str, by: str, verb: Verb) -> bool:
        """Let a process carry out an answer; False when another one does, or did."""
        values = {"question_id": row.question_id, "answer": answer, "by": by, "action": verb}
        before = row.answered_by or ""
        return self.execute("take_question", values | {"before": before}).rowcount > 0

    def free_question(self, question_id: str, by: str) -> None:
        """Let a question be answered anew whose answer could not be carried out."""
        self.execute("free_question", {"question_id": question_id, "by": by})

    def settle(self, run_id: str, answer: str, by: str, now: datetime) -> int:
        """Answer all open questions of a run, because it has moved on."""
        values = {"run_id": run_id, "answer": answer, "by": by, "now": utc(now)}
        return self.execute("settle_questions", values).rowcount
