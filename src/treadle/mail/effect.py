"""What letters bring about: tasks, claims, checks, questions to a human, copies."""

import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from treadle import markdown
from treadle.contract import Criterion
from treadle.errors import FormatError, TreadleError
from treadle.files import atomic
from treadle.ids import HUMAN, TREADLE
from treadle.layout import NEW_MESSAGES, Layout, MailLayout
from treadle.mail import index
from treadle.mail.index import entry_row, summary
from treadle.mail.letter import (
    ASKING,
    WORK,
    Draft,
    Letter,
    Sent,
    compose,
    has_effect,
    is_broadcast,
    numbered,
    post,
    read_letter,
    register_agent,
    registered_agents,
    write,
)
from treadle.store import letters as table
from treadle.store.letters import FolderRow, LetterRow
from treadle.store.questions import Action, Subject
from treadle.store.store import Store
from treadle.store.tasks import TaskClaimRow, TaskRow
from treadle.tasks import claim, lanes, questions
from treadle.tasks.files import take_over_all
from treadle.tasks.questions import Question
from treadle.tasks.task import (
    PEER_REVIEWED,
    TESTS_PASSED,
    Note,
    add,
    change_task,
    find_task,
    write_views,
)


def make_effect(store: Store, mail: MailLayout, known: LetterRow, now: datetime) -> list[str]:
    """Make a letter's effect; a kill repeats it, so all of it bears being made twice."""
    question_id, said = None, []
    with contextlib.suppress(FormatError):
        letter = read_letter(index.path(mail, known))
        try:
            question_id = _make(store, mail, known, letter, now)
        except TreadleError as error:
            said.append(f"{known.name}: {error.message}")
            _tell(mail, letter, error.message, now)
    table.settle(store, known.letter_id or 0, question_id)
    return said


def try_out(store: Store, letter: Letter, now: datetime) -> None:
    """Claim or release a letter's task, so that a refusal is the sender's to see."""
    find_task(store, letter.task_id or "")
    if letter.intent == "claim_task":
        _claim_task(store, letter, now)
    else:
        claim.release(store, letter.task_id or "", claim.Holder(letter.sender), now)


def _tell(mail: MailLayout, letter: Letter, text: str, now: datetime) -> None:
    """Write back to a sender whose letter could not have its effect."""
    about = (("in_reply_to", letter.message_id),)
    draft = Draft(TREADLE, letter.sender, "inform", text, letter.task_id, "failed", about)
    post(mail, compose(draft, now))


def ensure_task(store: Store, letter: Letter, now: datetime) -> None:
    """Add the task that a work letter is about, unless it is known.

    Commands come only from people, so what a letter's criteria would run stays text.
    """
    if letter.task_id is None or store.task(letter.task_id):
        return
    goal = summary(letter) or letter.task_id
    asked = tuple(_without_command(item) for item in markdown.criteria(letter.body))
    asked = asked or (Criterion("AC1", goal),)
    new = TaskRow(letter.task_id, goal, criteria=asked, source="letter")
    with contextlib.suppress(TreadleError):  # somebody else has just added it
        add(store, new, now)


def _make(
    store: Store, mail: MailLayout, known: LetterRow, letter: Letter, now: datetime
) -> str | None:
    if letter.intent in WORK:
        _work(store, known, letter, now)
    elif found := _EFFECTS.get(letter.intent):
        found(store, letter, now)
    everybody = registered_agents(mail) if is_broadcast(letter) else []
    readers = [agent for agent in everybody if agent != letter.sender]
    for agent in [*readers, HUMAN] if letter.intent == "escalate" else readers:
        _copy(store, mail, known, letter, agent)
    if letter.intent == "escalate" or letter.to == HUMAN:
        return known.question_id or _ask(store, known, letter, now)
    return None


def _work(store: Store, known: LetterRow, letter: Letter, now: datetime) -> None:
    """Add the task; a letter that lies in an INBOX has been claimed, and its task with it."""
    ensure_task(store, letter, now)
    task = store.task(letter.task_id or "")
    if task and known.box == "inbox" and known.agent and task.lane == "planned":
        with contextlib.suppress(TreadleError):
            claim.claim(store, task.task_id, known.agent, now)


def _claim_task(store: Store, letter: Letter, now: datetime) -> None:
    task = store.task(letter.task_id or "")
    if task and task.owner == letter.sender and claim.is_held(task, now):
        return
    claim.claim(store, letter.task_id or "", letter.sender, now)


def _release_task(store: Store, letter: Letter, now: datetime) -> None:
    task = store.task(letter.task_id or "")
    if task and task.lane in lanes.HELD and task.owner == letter.sender:
        claim.release(store, task.task_id, claim.Holder(letter.sender), now)


def _test_results(store: Store, letter: Letter, now: datetime) -> None:
    """Take a tester's word, unless it is the owner's own."""
    task = store.task(letter.task_id or "")
    if task and letter.sender != task.owner and letter.status in ("completed", "failed"):
        _say(store, task, TESTS_PASSED, letter)


def _answer(store: Store, letter: Letter, now: datetime) -> None:
    """Count an approval; let a human's answer settle what was asked."""
    asked = _original(store, letter)
    if asked is None:
        return
    task = store.task(asked.task_id or "")
    reviews = asked.intent in ("review_code", "approval_request")
    decided = letter.status in ("completed", "failed", "blocked")
    if task and reviews and decided and letter.sender != task.owner:
        _say(store, task, PEER_REVIEWED, letter)
    question = store.question(asked.question_id or "")
    if question and question.answered_at is None and letter.sender == HUMAN:
        # Closed last: a kill before that leaves it open, and the letter is seen again.
        unblock(store, asked, now)
        questions.answer(store, question.question_id, summary(letter), letter.sender, now)


def _escalate(store: Store, letter: Letter, now: datetime) -> None:
    if store.task(letter.task_id or ""):
        change_task(store, letter.task_id or "", _blocked, Note(letter.sender, "escalated"), now)


def _blocked(task: TaskRow) -> TaskRow:
    """Block a task as it is now; somebody may have finished it since the letter was written."""
    return claim.freed(task, "blocked") if "blocked" in lanes.legal(task.lane) else task


_EFFECTS: dict[str, Callable[[Store, Letter, datetime], None]] = {
    "claim_task": _claim_task,
    "release_task": _release_task,
    "test_results": _test_results,
    "answer": _answer,
    "escalate": _escalate,
}


def unblock(store: Store, asked: LetterRow, now: datetime) -> TaskRow | None:
    """Let work on an escalated task go on: its owner's again, or anybody's."""
    task = store.task(asked.task_id or "")
    if task is None or asked.intent != "escalate":
        return None
    note = Note(task.owner or TREADLE, "answered", forced=True)
    before, after = change_task(
        store, task.task_id, lambda current: _unblocked(current, now), note, now
    )
    return after if after != before else None


def _unblocked(task: TaskRow, now: datetime) -> TaskRow:
    if task.lane != "blocked":
        return task
    if task.owner is None:
        return claim.freed(task, "planned")
    return claim.given(task, "in_progress", claim.new_claim(task.owner, now), now)


def _say(store: Store, task: TaskRow, name: str, letter: Letter) -> None:
    value = letter.status == "completed"
    said = TaskClaimRow(task.task_id, name, value, letter.sender, letter.created_at)
    store.claim_check(said)
    write_views(store, store.mail, task.task_id)


def _original(store: Store, letter: Letter) -> LetterRow | None:
    reference = letter.header("in_reply_to")
    if not reference:
        return None
    found = table.with_message_id(store, reference) or table.named(store, reference)
    return found[0] if found else None


def _ask(store: Store, known: LetterRow, letter: Letter, now: datetime) -> str | None:
    if letter.intent not in ASKING:
        return None
    approval = letter.intent == "approval_request"
    offered = tuple(Action("answer", option) for option in options(letter))
    return questions.ask(
        store,
        Question(
            kind="approval" if approval else "question",
            summary=f"{letter.sender}: {summary(letter)}",
            subject=Subject("letter", known.name),
            actions=questions.APPROVE_OR_NOT if approval else offered,
            task_id=letter.task_id,
        ),
        now,
    )


def options(letter: Letter) -> tuple[str, ...]:
    """Return the answers that a letter's *Options* offer."""
    listed = markdown.section(letter.body, "Options")
    if listed is None:
        return ()
    items = markdown.criteria(f"# {markdown.CRITERIA_HEADING}\n{listed}")
    names = ("" if item.id == f"AC{n}" else f"{item.id}: " for n, item in enumerate(items, 1))
    pairs = zip(names, items, strict=True)
    return tuple(f"{name}{item.text}".replace("**", "") for name, item in pairs)


def _copy(store: Store, mail: MailLayout, known: LetterRow, letter: Letter, agent: str) -> None:
    """Put a copy into an agent's INBOX, unless it has had one."""
    if any(copy.agent == agent for copy in table.copies(store, known.name)):
        return
    register_agent(mail, agent)
    name = atomic.deliver(mail.inbox(agent), numbered(known.name), write(letter).encode())
    copy = entry_row(letter, index.inbox(agent), name, pending=False)
    table.insert(store, [copy._replace(copy_of=known.name)])


def _without_command(item: Criterion) -> Criterion:
    return Criterion(item.id, f"{item.text}: {item.verify}") if item.verify else item


def refresh(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Take in what changed, and make the effects of letters; return what went wrong."""
    stale, marks = index.stale(store, mail)
    said = _tasks(store, mail, now) if index.TASKS in stale else []
    if stale:
        said += index.take_in(store, mail, stale, marks)
    return said + make_effects(store, mail, now)


def fresh(layout: Layout, now: datetime) -> tuple[Store, list[str]]:
    """Open the store with every letter in it, and say what was wrong with some."""
    store = Store.open(layout)
    return store, refresh(store, layout.mail, now)


def rebuild(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Read every folder again, whatever its time says."""
    table.mark(store, [], list(table.folders(store)))
    return refresh(store, mail, now)


def make_effects(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Make the effects that letters still wait for."""
    said = []
    for pending in table.pending(store):
        said += make_effect(store, mail, pending, now)
    return said


def see(store: Store, mail: MailLayout, name: str, letter: Letter, now: datetime) -> list[str]:
    """Take in one letter that was just delivered, with its effect."""
    new = entry_row(letter, index.NEW, name, pending=has_effect(letter))
    table.insert(store, [new])
    known = table.at(store, NEW_MESSAGES, name)
    return make_effect(store, mail, known, now) if known and known.pending else []


def _tasks(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Take in what others wrote about tasks; writing it down again index the folder too."""
    said = take_over_all(store, mail, now)
    table.mark(store, [FolderRow(index.TASKS, index.dated(mail.tasks), time.time_ns())])
    return said


def send(layout: Layout, draft: Draft, now: datetime, extra: Sequence[str] = ()) -> Sent:
    """Deliver a letter durably; an effect that is refused refuses the letter with it."""
    return deliver(layout, compose(draft, now, extra), now)


def deliver(layout: Layout, letter: Letter, now: datetime) -> Sent:
    """Put a letter into NEW_MESSAGES and make its effect."""
    if not has_effect(letter):
        return post(layout.mail, letter)
    with Store.open(layout) as store:
        if letter.intent in ("claim_task", "release_task"):
            try_out(store, letter, now)
        sent = post(layout.mail, letter)
        return sent._replace(said=see(store, layout.mail, sent.name, letter, now))
