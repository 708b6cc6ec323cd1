"""What waits for a human: questions, asked once and answered once."""

import json
from datetime import datetime
from typing import NamedTuple

from treadle.ids import utc
from treadle.store import codec
from treadle.store.codec import Row, kept_in
from treadle.store.tasks import count_up
from treadle.store.transaction import Reading, Writing, change


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


class QuestionReader(Reading):
    """Tell what waits for a human."""

    def question(self, question_id: str) -> QuestionRow | None:
        """Return one question."""
        return self.first(_question, "question", question_id=question_id)

    def questions(self, open_only: bool = True) -> list[QuestionRow]:
        """Return what waits for a human, oldest first, or everything that ever did."""
        return self.records(_question, "open_questions" if open_only else "questions")

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
        self.execute("insert_question", codec.values(asked))
        return asked.question_id

    def answer(self, question_id: str, answer: str, by: str, now: datetime) -> bool:
        """Answer a question; False when it is not open."""
        values = {"question_id": question_id, "answer": answer, "by": by, "now": utc(now)}
        return self.execute("answer_question", values).rowcount > 0

    def settle(self, run_id: str, answer: str, by: str, now: datetime) -> int:
        """Answer all open questions of a run, because it has moved on."""
        values = {"run_id": run_id, "answer": answer, "by": by, "now": utc(now)}
        return self.execute("settle_questions", values).rowcount


def _question(row: Row) -> QuestionRow:
    found = QuestionRow._make(row)
    options, fix = (row[QuestionRow._fields.index(name)] for name in ("options", "fix"))
    return found._replace(options=tuple(json.loads(options)), fix=tuple(json.loads(fix)))
