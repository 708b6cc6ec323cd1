"""Ask a human, show what can be answered, and take the answer; the desk reads what is open."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from treadle.errors import NotFoundError, UsageError, argument
from treadle.ids import TREADLE, hint, utc
from treadle.store.questions import PROJECT, Action, QuestionRow, Subject, Verb
from treadle.store.store import Reader, Store, Transaction

Kind = Literal[
    "question", "approval", "budget", "failed_run", "gate", "dead_letter", "refused_landing"
]

# What `approve` lets a run do that changed protected files; otherwise it names a budget.
PROTECTED = "protected"
FLEET = "fleet"
_TOLD = ("kind", "summary", "created_at", "run_id", "task_id")
APPROVE_OR_NOT = (Action("approve"), Action("reject"))


class Question(NamedTuple):
    """What a human should decide, with the ways to answer and commands that help."""

    kind: Kind
    summary: str
    subject: Subject = PROJECT
    actions: tuple[Action, ...] = ()
    look: tuple[str, ...] = ()
    matter: str | None = None
    run_id: str | None = None
    task_id: str | None = None


def ask(store: Store | Transaction, question: Question, now: datetime) -> str:
    """Put a question on the desk and return its id; the same open question is asked once."""
    values = question._asdict()
    subject: Subject = values.pop("subject")
    row = QuestionRow(question_id="", created_at=utc(now), **values)
    return store.ask(row._replace(subject_kind=subject.kind, subject_id=subject.id))


def answer(
    store: Store, question_id: str, text: str, by: str, now: datetime, verb: Verb | None = None
) -> QuestionRow:
    """Answer a question, once."""
    if not store.answer(question_id, text, by, now, verb):
        raise _closed(find(store, question_id))
    return find(store, question_id)


def settle(store: Store | Transaction, run_id: str, why: str, now: datetime) -> int:
    """Close a run's open questions because what they asked has been decided by doing."""
    return store.settle(run_id, why, TREADLE, now)


def close(
    store: Store | Transaction,
    subject: Subject,
    why: str,
    now: datetime,
    matter: str | None = None,
) -> None:
    """Close what is open about something, or only about one matter of it."""
    for item in store.questions_about(subject):
        if item.is_open and matter in (None, item.matter):
            store.answer(item.question_id, why, TREADLE, now)


def newest(
    store: Reader | Transaction, subject: Subject, matter: str | None = None
) -> QuestionRow | None:
    """Return the newest question about something, or about one matter of it."""
    found = [it for it in store.questions_about(subject) if matter in (None, it.matter)]
    return found[-1] if found else None


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
    if not question.is_open:
        raise _closed(question)
    return question


def label(action: Action, subject: Subject) -> str:
    """Return what an action is called where one can choose it."""
    if action.verb == "answer":
        return action.value or "answer"
    if action.verb == "leave":
        return "leave it"
    is_mail = subject.kind in ("message", "chain")
    return "drop it" if action.verb == "reject" and is_mail else action.verb


def labels(row: QuestionRow) -> tuple[str, ...]:
    """Return the answers to choose from, in the order of their numbers."""
    return tuple(label(action, row.subject) for action in row.actions)


def items_document(rows: Sequence[QuestionRow]) -> dict[str, object]:
    """Return what waits as programs get it."""
    return {"items": [item_document(row) for row in rows]}


def item_document(row: QuestionRow) -> dict[str, object]:
    """Return one item of the desk as programs get it."""
    return {
        "item_id": row.question_id,
        **{name: getattr(row, name) for name in _TOLD},
        "subject": row.subject._asdict(),
        "actions": [
            {
                "action": action.verb,
                "label": label(action, row.subject),
                "command": command(action, row.subject),
            }
            for action in row.actions
        ],
        "options": labels(row),
        "fix": every_command(row),
    }


def every_command(row: QuestionRow) -> tuple[str, ...]:
    """Return every command that helps with an item, the answers last."""
    numbers = range(1, len(row.actions) + 1)
    words = [f"--option {number}" for number in numbers] or ['"TEXT"']
    answers = (f"treadle answer {row.question_id} {word}" for word in words)
    return (*commands(row), *answers)


def commands(row: QuestionRow) -> tuple[str, ...]:
    """Return the commands that help to decide, and those that carry out an action."""
    read = (
        (f"treadle mail read {argument(row.subject_id)}",) if row.subject_kind == "letter" else ()
    )
    carried_out = (command(action, row.subject) for action in row.actions)
    return tuple(dict.fromkeys((*row.look, *read, *filter(None, carried_out))))


def command(action: Action, subject: Subject) -> str | None:
    """Return the command that carries out an action; None where only the answer counts."""
    resume = f"treadle run --resume {subject.id}"
    match action.verb, subject.kind:
        case "approve", "run":
            is_protected = action.value == PROTECTED
            return f"{resume} {'--approve' if is_protected else '--budget'} {action.value}"
        case "resume", "run":
            budget = f" --budget {action.value}" if action.value else ""
            return f"{resume}{budget}{' --fleet' if action.target == FLEET else ''}"
        case "reject", "run":
            return resume
        case "land", "run":
            return f"treadle land {subject.id}"
        case "again", _ if action.target:
            return f"treadle run {action.target}"
        case "retry", "message":
            return f"treadle dead retry {argument(subject.id)}"
        case _:
            return None


def _closed(question: QuestionRow) -> UsageError:
    return UsageError(
        f"{question.question_id} was answered by {question.answered_by} "
        f"at {question.answered_at}: {question.answer}",
        code="question_answered",
        fix=["treadle desk"],
    )
