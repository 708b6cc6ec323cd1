"""Ask a human, show what can be answered, and take the answer; the desk reads what is open."""

import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import product
from typing import Literal, NamedTuple

from treadle.contract import RunStatus
from treadle.errors import NotFoundError, TreadleError, argument
from treadle.ids import TREADLE, hint, local, utc, without_runs
from treadle.store.questions import PROJECT, Action, QuestionRow, Subject
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store, Transaction

Kind = Literal[
    "question", "approval", "budget", "failed_run", "gate", "dead_letter", "refused_landing", "held"
]

# What `approve` lets a run do that changed protected files; otherwise it names what is held.
PROTECTED = "protected"
FLEET = "fleet"
_TASK = {"retry": "", "again": " --task"}
# What answers that need nothing but their subject do.
_COMMANDS = {
    ("land", "run"): "treadle land {}",
    ("pr", "run"): "treadle pr {}",
    ("rebase", "run"): "treadle rebase {}",
    ("retry", "spec"): "treadle process {}",
    ("again", "spec"): "treadle spec retry {}",
    ("reject", "spec"): "treadle spec drop {}",
    ("retry", "message"): "treadle dead retry {}",
    ("retry", "agent"): "treadle process",  # what has no run yet
    ("retry", "mission"): "treadle next --json --mission {}",
    **dict.fromkeys(product(("approve", "reject", "resume"), ("message",)), "treadle process {}"),
    **dict.fromkeys(product(("approve", "reject"), ("chain",)), "treadle process {}"),
}
_PUTS_BACK = (("retry", "message"), ("again", "spec"))
_TOLD = ("kind", "summary", "created_at", "run_id", "task_id")
# What somebody without the key wrote: no worker goes on with it, and none should be asked to.
FORGED = ("order_unsigned", "order_forged", "archive_forged", "row_forged")
# What stops one run and says nothing of others; of what fails one, what does.
_ITS_OWN = ("no_progress", "check_broken", "branch_moved", "agent_exit", "timeout", *FORGED)
_OF_ALL = ("setup_failed", "agent_missing")
# What goes on with the words of a person who does not say how, the first that there is.
GOES_ON = ("resume", "retry", "again")
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


def of_run(
    row: RunRow, kind: Kind, text: str, actions: tuple[Action, ...], look: Sequence[str]
) -> Question:
    """Return a question about a run, with what the run was asked for."""
    return Question(
        kind=kind,
        summary=f"{row.goal}: {text}",
        subject=Subject("run", row.run_id),
        actions=actions,
        look=tuple(look),
        run_id=row.run_id,
        task_id=row.task_id,
    )


def of_fleet(question: Question, status: RunStatus, code: str) -> Question:
    """Return a question about a run of the fleet so that one cause of many is one item."""
    is_common = code not in _ITS_OWN if status == "stopped" else code in _OF_ALL
    if question.kind != "failed_run" or not is_common:
        return question
    look = (*question.look, f"treadle fleet resume --where {argument(code)}")
    return question._replace(matter=f"fleet {code}", look=look)


def ask(store: Store | Transaction, question: Question, now: datetime) -> str:
    """Put a question on the desk and return its id; the same open question is asked once."""
    values = question._asdict()
    subject: Subject = values.pop("subject")
    row = QuestionRow(question_id="", created_at=utc(now), **values)
    return store.ask(row._replace(subject_kind=subject.kind, subject_id=subject.id))


def settle(store: Store | Transaction, run_id: str, why: str, now: datetime) -> int:
    """Close a run's open questions because what they asked has been decided by doing."""
    return store.settle(run_id, why, TREADLE, now)


def close(
    store: Store | Transaction, subject: Subject, why: str, now: datetime, matter: str | None = None
) -> None:
    """Close what is open about something, or only about one matter of it."""
    for item in store.questions_about(subject):
        if item.is_open and matter in (None, item.matter):
            store.answer(item.question_id, why, TREADLE, now)


def ask_only(
    store: Store, about: Subject, asked: Question | None, now: datetime, matter: str | None = None
) -> None:
    """Ask this about something that went on meanwhile, and close what it asked before of that.

    What is the same but for the run that it names stays one question.
    """
    for item in store.questions_about(about):
        if not item.is_open or matter not in (None, item.matter):
            continue
        if asked is None or not is_same(item, asked):
            store.answer(item.question_id, "went on", TREADLE, now)
        elif (item.summary, item.look) != (asked.summary, asked.look):
            store.restate(item.question_id, asked.summary, asked.look)
    if asked:
        ask(store, asked, now)


def is_same(row: QuestionRow, question: Question) -> bool:
    """Tell whether a question was asked before, maybe about an earlier run."""
    return without_runs(row.summary) == without_runs(question.summary)


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
        raise closed(question)
    return question


def said_about(store: Reader, subjects: Iterable[Subject]) -> str | None:
    """Return what a person said when they let something go on; None if nothing."""
    found = [row for subject in subjects for row in store.questions_about(subject)]
    goes_on = [row for row in found if row.action in ("approve", *GOES_ON)]
    goes_on.sort(key=lambda row: row.answered_at or "")
    return "\n\n".join(dict.fromkeys(filter(None, (row.words for row in goes_on)))) or None


def said_of_task(store: Reader, task_id: str) -> list[str]:
    """Return what a person said when a mission's task waited; letters bring their own answers."""
    rows = [row for row in store.questions_of_task(task_id) if row.subject_kind == "mission"]
    return [words for row in rows if (words := row.words)]


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
                "label": action.label(row.subject),
                "command": command(action, row.subject),
                "answer": answer,
            }
            for action, answer in zip(row.actions, row.answers, strict=False)
        ],
        "options": row.labels,
        "fix": (*commands(row), *row.answers),
    }


def commands(row: QuestionRow) -> tuple[str, ...]:
    """Return the commands that help to decide, and those that carry out an action."""
    carried_out = (command(action, row.subject) for action in row.actions)
    return tuple(dict.fromkeys((*looks(row), *filter(None, carried_out))))


def looks(row: QuestionRow) -> tuple[str, ...]:
    """Return the commands that show what an item is about."""
    read = f"treadle mail read {argument(row.subject_id)}"
    return (*row.look, read) if row.subject_kind == "letter" else row.look


def steps(action: Action, subject: Subject, words: str | None = None) -> tuple[str, ...]:
    """Return the commands that carry out an action to its end, one after the other."""
    first = command(action, subject, words)
    if (action.verb, subject.kind) in _PUTS_BACK:  # what waits in the inbox again is carried out
        return (str(first), f"treadle process {argument(subject.id)}")
    return (first,) if first else ()


def command(action: Action, subject: Subject, words: str | None = None) -> str | None:
    """Return the command that carries out an action with a person's words; None for no command."""
    resume, note = f"treadle run --resume {subject.id}", f" --note{_value(words)}" if words else ""
    match action.verb, subject.kind:
        case "approve", "run":
            return f"{resume} --approve {action.value}{note}"
        case "resume", "run":
            budget = f" --budget {action.value}" if action.value else ""
            return f"{resume}{budget}{' --fleet' if action.target == FLEET else ''}{note}"
        case "reject", "run":
            return f"{resume} --reject{_value(words)}"
        case "retry" | "again", "run" if action.value:  # accepted work that no longer holds
            return f"treadle verify {argument(action.value)}{_TASK[action.verb]}"
        case "again", _ if action.target:
            return f"treadle run {action.target}{note}"
        case "retry", "agent" if action.target:
            return f"treadle run --resume {action.target}{note}"
        case "again", "run":
            return f"treadle run --again {argument(subject.id)}{note}"
        case pair if pair in _COMMANDS:
            return _COMMANDS[pair].format(argument(subject.id))
        case _:
            return None


def _value(words: str | None) -> str:
    """Write an option's value so that no command takes it for another option."""
    dash = "=" if words and words.startswith("-") else " "
    return f"{dash}{shlex.quote(words)}" if words else ""


def closed(question: QuestionRow) -> TreadleError:
    """Return the first one's answer for whoever comes second."""
    said = f"{question.action}: " if question.action not in (None, question.answer) else ""
    how = "is being answered"
    if not question.is_open:
        how = f"was answered by {question.answered_by} at {local(question.answered_at or '')}"
    text = f"{question.question_id} {how}: {said}{question.answer}"
    return TreadleError(text, code="question_answered", fix=["treadle desk"])
