"""Ask a human and take the answer; the desk reads what is open."""

from datetime import datetime
from typing import Literal, NamedTuple

from treadle.errors import NotFoundError, UsageError
from treadle.ids import TREADLE, hint, utc
from treadle.store.questions import QuestionRow
from treadle.store.store import Reader, Store

Kind = Literal[
    "question", "approval", "budget", "failed_run", "gate", "dead_letter", "refused_landing"
]


class Question(NamedTuple):
    """What a human should decide, with answers to choose from and commands that help."""

    kind: Kind
    summary: str
    options: tuple[str, ...] = ()
    fix: tuple[str, ...] = ()
    run_id: str | None = None
    task_id: str | None = None


def ask(store: Store, question: Question, now: datetime) -> str:
    """Put a question on the desk and return its id; the same open question is asked once."""
    return store.ask(QuestionRow(question_id="", created_at=utc(now), **question._asdict()))


def answer(store: Store, question_id: str, text: str, by: str, now: datetime) -> QuestionRow:
    """Answer a question, once."""
    if not store.answer(question_id, text, by, now):
        raise _closed(find(store, question_id))
    return find(store, question_id)


def settle(store: Store, run_id: str, why: str, now: datetime) -> int:
    """Close a run's open questions because what they asked has been decided by doing."""
    return store.settle(run_id, why, TREADLE, now)


def find(store: Reader, question_id: str) -> QuestionRow:
    """Return a question, or raise NotFoundError with the nearest id."""
    question = store.question(question_id)
    if question is None:
        near = hint(question_id, store.question_ids())
        raise NotFoundError(f"there is no question {question_id}{near}", fix=["treadle desk"])
    return question


def find_open(store: Reader, question_id: str) -> QuestionRow:
    """Return a question that nobody has answered yet."""
    question = find(store, question_id)
    if question.answered_at is not None:
        raise _closed(question)
    return question


def newest(store: Reader, summary: str) -> QuestionRow | None:
    """Return the newest question in these words, answered or not."""
    found = [item for item in store.questions(open_only=False) if item.summary == summary]
    return found[-1] if found else None


def is_open(store: Reader, summary: str) -> bool:
    """Tell whether a question in these words waits for an answer."""
    return any(item.summary == summary for item in store.questions())


def _closed(question: QuestionRow) -> UsageError:
    return UsageError(
        f"{question.question_id} was answered by {question.answered_by} "
        f"at {question.answered_at}: {question.answer}",
        code="question_answered",
        fix=["treadle desk"],
    )
