"""Take a human's answer, once: what it does, and the commands that carry out the rest of it."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from treadle.engine.run import days, memory
from treadle.engine.run.run import reach
from treadle.engine.show import report, view
from treadle.errors import FormatError, NotFoundError, UsageError
from treadle.files import walk
from treadle.ids import HUMAN, is_task_id, utc
from treadle.inbox import box
from treadle.layout import WORKSPACE_DIFF, Layout
from treadle.mail import claim, effect, find, index
from treadle.mail.letter import WORK, Draft, Letter, compose, post
from treadle.proc import identity
from treadle.store import letters as table
from treadle.store import outages
from treadle.store.letters import LetterRow
from treadle.store.questions import Action, QuestionRow, Verb
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store
from treadle.store.tasks import TaskRow
from treadle.tasks import questions
from treadle.tasks.task import write_views

_ALSO = {"yes": "approve", "no": "reject", "drop it": "reject", "leave it": "leave"}
_MAX_SHOWN = 1 << 20


class Words(NamedTuple):
    """What a person said: an action or an answer, more words with it, or an answer's number."""

    action: str | None = None
    text: str | None = None
    option: int | None = None


class Answered(NamedTuple):
    """An answer: the letter that told of it, the task that goes on, the commands that are left.

    As long as `taken` has a name the question is open: the answer counts when it is carried out.
    """

    question: QuestionRow
    action: Action
    answer: str
    taken: str | None = None
    commands: tuple[str, ...] = ()
    letter: str | None = None
    task: TaskRow | None = None


def answer(store: Store, item_id: str, said: Words, now: datetime) -> Answered:
    """Take an answer, and do all of it that needs no command of its own.

    A kill leaves the item on the desk, or what was done: a letter that is seen by whoever looks
    next, an approval that the next pass finds.
    """
    question = questions.find_open(store, item_id)
    action, words = _choose(question, said)
    text = words or action.label(question.subject)
    if words and said.option is not None and action.verb == "answer":
        text = f"{action.value}\n\n{words}"
    given = Answered(question, action, text, _take(store, question, text, action))
    reach("after_answer_taken")
    if asked := table.of_question(store, question.question_id):
        if question.matter == effect.NO_TASK and (text == effect.NEW_TASK or is_task_id(text)):
            name, task = _send_anew(store, question, asked[0], text, now)
        else:
            name, task = _send_answer(store, asked[0], action, text, now)
        return _closed(store, given._replace(letter=name, task=task), now)
    if question.subject_kind == "mission" and action.verb != "leave":
        return _let_step_go_on(store, given, now)
    if question.matter == effect.OVERDUE and words:
        row = find.find_letter(store, question.subject_id)
        about = index.references(row, None)
        draft = Draft(HUMAN, row.agent or row.recipient, "inform", words, row.task_id, None, about)
        given = given._replace(letter=post(store.mail, compose(draft, now)).name)
    if action.verb == "resume" and action.value:
        known = days.recall(store, question.subject_id)
        action = action._replace(value=known.budget_needed)
    given = given._replace(commands=questions.steps(action, question.subject, words))
    if question.subject_kind == "agent" and action.verb == "retry":
        outages.set_next_try(store, question.subject_id, utc(now))
        run = store.run(action.target or "")
        is_left = run and run.status != "running" and not memory.is_over(store, run)
        if action.target and not is_left:  # one at work tries at once
            given = given._replace(commands=())
    verbs, kinds = ("approve", "reject"), ("message", "chain")
    is_permission = action.verb in verbs and question.subject_kind in kinds
    # What a pass asks for is a permission: it looks for the answer.
    return _closed(store, given, now) if is_permission or not given.commands else given


def _let_step_go_on(store: Store, given: Answered, now: datetime) -> Answered:
    """Let a mission's step be tried again, its task go on and the words count, all at once."""
    asked = given.question

    def change(tx: Store) -> TaskRow | None:
        tx.calm_step(asked.subject_id, asked.matter or "")
        _closed(tx, given, now)
        return effect.unblock_within(tx, asked.task_id, now)

    task = store.write(change)
    if task:
        write_views(store, store.mail, task.task_id)
    return given._replace(taken=None, task=task)


def _take(store: Store, question: QuestionRow, text: str, action: Action) -> str:
    """Take an open question to carry out an answer, and return the name it is taken under.

    Of several who try, one gets it; after a kill, whoever comes next does.
    """
    me, holder = identity.current().encode(), question.answered_by
    is_free = holder in (None, me) or _is_dead(str(holder))
    if not is_free or not store.take_question(question, text, me, action.verb):
        raise questions.closed(questions.find(store, question.question_id))
    return me


def _is_dead(holder: str) -> bool:
    try:
        return identity.is_dead(identity.decode(holder))
    except FormatError:
        return True


def finish(store: Store, given: Answered, is_done: bool, now: datetime) -> None:
    """Close what was carried out; what could not be carried out can be answered again."""
    reach("after_answer_carried_out")
    if given.taken and is_done:
        _closed(store, given, now)
    elif given.taken:
        store.free_question(given.question.question_id, given.taken)


class Detail(NamedTuple):
    """A part of what is known about an item: a diff, prose such as a plan or a letter, output."""

    title: str
    text: str
    kind: Literal["diff", "prose", "output"] = "output"


def show_document(row: QuestionRow, parts: list[Detail]) -> dict[str, object]:
    """Return all there is to know about an item as programs get it."""
    return questions.item_document(row) | {
        "answered_at": row.answered_at,
        "answered_by": row.answered_by if row.answered_at else None,
        "answer": row.answer if row.answered_at else None,
        "details": [part._asdict() for part in parts],
    }


def details(layout: Layout, store: Reader, row: QuestionRow) -> list[Detail]:
    """Return everything that helps to decide about an item, as far as it is still there."""
    found: list[Detail] = []
    with suppress(NotFoundError, FormatError, OSError):  # put back, moved or removed meanwhile
        found += _of_message(layout, store, row)
    if run := store.run(row.run_id or ""):
        found += _of_run(layout, store, run)
    return [part for part in found if part.text.strip()]


def _of_message(layout: Layout, store: Reader, row: QuestionRow) -> Iterator[Detail]:
    """Yield what a letter, a message or a dead one says."""
    if row.kind == "dead_letter":
        letter = box.find_dead(layout, row.subject_id)
        yield Detail("why it died", str(letter.reason.get("message")))
        yield Detail(letter.name, box.text_of_dead(layout, letter))
    elif row.subject_kind == "message":
        path = layout.inbox / f"{row.subject_id}.md"
        yield Detail(path.name, box.read(path).decode(errors="replace"))
    elif row.subject_kind == "letter":
        asked = find.open_letter(layout.mail, find.find_letter(store, row.subject_id))
        yield Detail(f"letter from {asked.sender}", asked.body, "prose")


def _of_run(layout: Layout, store: Reader, run: RunRow) -> Iterator[Detail]:
    """Yield why a run waits, what failed in it, and the change that it waits with."""
    known, found = memory.recall(store, run.run_id), view.explain(layout, store, run)
    yield Detail(found.headline, found.reason or "")
    for item in found.failing:
        title = f"{item.id} {item.text}: {item.verify or 'judged by the check agent'}"
        log = layout.shared / item.evidence if item.observed is False and item.evidence else None
        yield Detail(title, (report.tail(log) if log else item.evidence) or "fails")
    waits = known.waiting
    for name in found.look:
        if not (waits and name.endswith(WORKSPACE_DIFF)):  # it is what waits
            yield Detail(name, report.tail(layout.shared / name))
    if waits:
        text = walk.tail(layout.shared / waits.file, _MAX_SHOWN)
        kind: Literal["diff", "prose"] = "prose" if waits.what == "plan" else "diff"
        yield Detail(f"the {waits.what} that waits, {waits.file}", text, kind)
    if known.protected:
        diff = walk.tail(layout.shared / known.protected.diff, _MAX_SHOWN)
        yield Detail(f"changes of {known.protected.names}", diff, "diff")


def answer_document(given: Answered) -> dict[str, object]:
    """Return what an answer did as programs get it."""
    return {
        "item_id": given.question.question_id,
        "kind": given.question.kind,
        "answer": given.answer,
        "letter": given.letter,
        "task_id": given.question.task_id,
        "lane": given.task.lane if given.task else None,
        "action": given.action.verb,
        "commands": list(given.commands),
        "fix": list(questions.commands(given.question)) if given.action.verb == "leave" else [],
    }


def _closed(store: Store, given: Answered, now: datetime) -> Answered:
    """Write the answer down for good, if what it did has not done so."""
    store.answer(given.question.question_id, given.answer, HUMAN, now, given.action.verb)
    return given._replace(taken=None)


def _choose(question: QuestionRow, said: Words) -> tuple[Action, str | None]:
    """Return what an answer means, by its number or its name, and the words that go with it."""
    word, text = ((part or "").strip() for part in said[:2])
    if said.option is not None and not word:
        return _numbered(question, said.option), text or None
    if said.option is not None or not (word or text):
        raise _unclear(question, "is answered with one of these, or in words")
    if word and (named := _named(question, word)):
        # Who wrote a letter reads the words too, so an approval may say more than that.
        is_more = question.subject_kind == "letter" and word.lower() != named.verb
        return named, "\n\n".join(filter(None, (word if is_more else "", text))) or None
    words = "\n\n".join(filter(None, (word, text)))
    verbs = {action.verb: action for action in question.actions}
    if question.subject_kind == "run" or verbs.keys() - {"answer", "leave"}:
        is_verb = _ALSO.get(words.lower(), words.lower()) in get_args(Verb)
        if is_verb and question.subject_kind != "letter":
            raise _unclear(question, f"is not answered with {words}, but with one of these")
        found = [verbs[verb] for verb in questions.GOES_ON if verb in verbs]
        if not found and question.subject_kind != "letter":
            raise _unclear(question, "asks for a decision; words go with --text")
        return (found or [Action("answer", words)])[0], words
    return Action("answer", words), words


def _numbered(question: QuestionRow, option: int) -> Action:
    if not 1 <= option <= len(question.actions):
        known = "; ".join(f"{n}: {item}" for n, item in enumerate(question.labels, 1))
        raise _unclear(question, f"has no option {option}; {known or 'it has none, write text'}")
    return question.actions[option - 1]


def _unclear(question: QuestionRow, what: str) -> UsageError:
    return UsageError(f"{question.question_id} {what}", fix=question.answers)


def _named(question: QuestionRow, words: str) -> Action | None:
    said = _ALSO.get(words.lower(), words.lower())
    for action in question.actions:
        names = (action.verb, action.label(question.subject).lower())
        begins = question.subject_kind == "letter" and said.startswith(action.verb)
        if said in names[action.verb == "answer" :] or (begins and action.verb != "answer"):
            return action
    return None


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


def _send_anew(
    store: Store, question: QuestionRow, asked: LetterRow, text: str, now: datetime
) -> tuple[str, TaskRow | None]:
    """Send work that named no task with the one it belongs to; an answer cut off sends it once."""
    message_id, mail = f"{question.question_id}-{asked.letter_id}", store.mail
    names = [row.name for row in table.with_message_id(store, message_id)]
    if not names:
        letter = find.open_letter(mail, asked)
        said = dict(letter.extra) | {"in_reply_to": asked.message_id or asked.name}
        task_id = store.reserve_task_id() if text == effect.NEW_TASK else text
        extra = tuple((said | {"message_id": message_id}).items())
        letter = letter._replace(task_id=task_id, extra=extra)
        names = [post(mail, letter).name]
        reach("after_answer_sent")
        effect.see(store, mail, names[0], letter, now)
    claim.archive(store, mail, asked)
    return names[0], None


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
        theirs = HUMAN in (row.agent, row.recipient) or (row.task_id is None and row.intent in WORK)
        if row.box in ("new", "inbox") and theirs:
            claim.archive(store, store.mail, row)
