"""Take a human's answer: write it down, tell who asked, let the work go on."""

from datetime import datetime
from typing import NamedTuple

from treadle.errors import UsageError
from treadle.ids import HUMAN
from treadle.inbox import box
from treadle.layout import Layout
from treadle.mail import claim, effect, index
from treadle.mail.letter import Draft, Letter, compose, post
from treadle.store import letters as table
from treadle.store.letters import LetterRow
from treadle.store.questions import Action, QuestionRow, Verb
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import questions


class Answered(NamedTuple):
    """What an answer did: the letter that told of it, the task that goes on, what is left to do."""

    question: QuestionRow
    action: Verb
    letter: str | None = None
    task: TaskRow | None = None
    fix: tuple[str, ...] = ()


def answer(
    layout: Layout,
    store: Store,
    item_id: str,
    text: str | None,
    option: int | None,
    now: datetime,
) -> Answered:
    """Answer an item once; what only a person should start is named, never started.

    To a letter the answer is a letter too, and that closes the item when it is seen: after a
    kill the item is still on the desk, or the letter is there and seen by whoever looks next.
    """
    question = questions.find_open(store, item_id)
    chosen = _choose(question, text, option)
    words = text.strip() if text else questions.label(chosen, question.subject)
    asked = table.of_question(store, question.question_id)
    if asked:
        name, task = _send_answer(store, asked[0], chosen, words, now)
        return Answered(questions.find(store, item_id), chosen.verb, name, task)
    if chosen.verb == "retry" and question.subject_kind == "message":
        box.retry_dead(layout, store, box.find_dead(layout, question.subject_id), now)
        found = questions.find(store, item_id)
        return Answered(found, chosen.verb, fix=("treadle process",))
    closed = questions.answer(store, item_id, words, HUMAN, now, chosen.verb)
    return Answered(closed, chosen.verb, fix=questions.commands(closed))


def answer_document(given: Answered) -> dict[str, object]:
    """Return what an answer did as programs get it."""
    return {
        "item_id": given.question.question_id,
        "kind": given.question.kind,
        "answer": given.question.answer,
        "letter": given.letter,
        "task_id": given.question.task_id,
        "lane": given.task.lane if given.task else None,
        "action": given.action,
        "fix": list(given.fix),
    }


def _send_answer(
    store: Store, asked: LetterRow, chosen: Action, words: str, now: datetime
) -> tuple[str, TaskRow | None]:
    """Send the answer to who asked; return its name, and their task if it goes on."""
    before = store.task(asked.task_id or "")
    letter = _answer_letter(asked, chosen, words, now)
    sent = post(store.mail, letter)
    effect.see(store, store.mail, sent.name, letter, now)
    _put_away(store, asked)
    after = store.task(asked.task_id or "")
    goes_on = before and after and before.lane == "blocked" != after.lane
    return sent.name, after if goes_on else None


def _choose(question: QuestionRow, text: str | None, option: int | None) -> Action:
    """Return the action that an answer means: by its number, by its name, or in other words."""
    if (text is None) == (option is None):
        raise UsageError(
            f'answer {question.question_id} with "text" or with --option N',
            fix=["treadle desk"],
        )
    if text is not None:
        return _named(question, text.strip())
    if option is None or not 1 <= option <= len(question.actions):
        known = "; ".join(f"{n}: {item}" for n, item in enumerate(questions.labels(question), 1))
        raise UsageError(
            f"{question.question_id} has no option {option}; {known or 'it has none, write text'}",
            fix=["treadle desk"],
        )
    return question.actions[option - 1]


def _named(question: QuestionRow, words: str) -> Action:
    if not words:
        raise UsageError("an answer must not be empty")
    said = words.lower()
    for action in question.actions:
        names = (action.verb, questions.label(action, question.subject).lower())
        # Who wrote a letter reads the words too, so an approval may say more than that.
        begins = question.subject_kind == "letter" and said.startswith(action.verb)
        if action.verb != "answer" and (said in names or begins):
            return action
    return Action("answer", words)


def _answer_letter(asked: LetterRow, chosen: Action, words: str, now: datetime) -> Letter:
    """Return the letter that brings the answer to whoever asked."""
    refused = asked.intent == "approval_request" and chosen.verb != "approve"
    status, about = "failed" if refused else "completed", index.references(asked, None)
    body = f"## Summary\n{words}"
    draft = Draft(HUMAN, asked.sender, "answer", body, asked.task_id, status, about)
    return compose(draft, now)


def _put_away(store: Store, asked: LetterRow) -> None:
    """Archive what was asked, and the human's copy of it."""
    rows = (*table.named(store, asked.name), *table.copies(store, asked.name))
    for row in {row.letter_id: row for row in rows}.values():
        theirs = row.agent == HUMAN or row.recipient == HUMAN
        if row.box in ("new", "inbox") and theirs:
            claim.archive(store, store.mail, row)
