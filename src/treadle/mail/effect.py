"""What letters bring about: tasks, claims, checks, questions to a human, copies."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from treadle import markdown
from treadle.contract import Criterion
from treadle.errors import FormatError, NotFoundError, TreadleError, argument
from treadle.ids import HUMAN, TREADLE, local, utc
from treadle.layout import NEW_MESSAGES, Layout, MailLayout
from treadle.mail import index
from treadle.mail.index import entry_row, summary
from treadle.mail.letter import (
    ASKING,
    COPY_HEADER,
    WORK,
    Draft,
    Letter,
    Sent,
    addressees,
    compose,
    drop,
    file_names,
    format_time,
    has_effect,
    is_broadcast,
    is_to_several,
    locate,
    post,
    read_letter,
    register_agent,
    registered_agents,
)
from treadle.store import letters as table
from treadle.store.letters import LetterRow
from treadle.store.questions import Action, Subject
from treadle.store.store import Store
from treadle.store.task_changes import TaskClaimRow
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, lanes, questions
from treadle.tasks.files import described, take_over_all
from treadle.tasks.questions import Question
from treadle.tasks.task import (
    COVERAGE,
    COVERED,
    FILES,
    LETTER,
    PEER_REVIEWED,
    TESTS_PASSED,
    Note,
    add,
    change_task,
    find_task,
    insert,
    moved_record,
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
    """Add the task that a work letter is about, unless it is known."""
    if letter.task_id is None or store.task(letter.task_id):
        return
    with contextlib.suppress(TreadleError):  # somebody else has just added it
        add(store, _asked_task(store, store.mail, letter), now)


def _asked_task(store: Store, mail: MailLayout, letter: Letter) -> TaskRow:
    """Return the task that a letter asks for; its own file describes it better.

    Commands come only from people, so what a letter's criteria would run stays text.
    """
    task_id = letter.task_id or ""
    if os.path.lexists(mail.task(task_id, "md")):
        return described(store, mail, task_id)
    goal = summary(letter) or task_id
    asked = tuple(_without_command(item) for item in markdown.criteria(letter.body))
    return TaskRow(task_id, goal, criteria=asked or (Criterion("AC1", goal),), source=LETTER)


def _make(
    store: Store, mail: MailLayout, known: LetterRow, letter: Letter, now: datetime
) -> str | None:
    if letter.intent in WORK and letter.task_id is None:
        return known.question_id or _ask_for_task(store, known, letter, now)
    if letter.intent in WORK:
        _work(store, known, letter, now)
    elif found := _EFFECTS.get(letter.intent):
        found(store, letter, now)
    names = addressees(letter.to)
    everybody = registered_agents(mail) if is_broadcast(letter) else []
    readers = names if is_to_several(letter) else [it for it in everybody if it != letter.sender]
    for agent in [*readers, HUMAN] if letter.intent == "escalate" else readers:
        _copy(store, mail, known, letter, agent)
    question_id = known.question_id
    if letter.intent == "escalate" or HUMAN in names:
        question_id = question_id or _ask(store, known, letter, now)
    if is_to_several(letter) and known.box != "logs":
        with contextlib.suppress(NotFoundError):  # somebody else has just filed it
            index.move_letter(store, mail, known, index.logs(None))
    return question_id


def _work(store: Store, known: LetterRow, letter: Letter, now: datetime) -> None:
    """Add the task; a letter that lies in somebody's folder is claimed, and its task with it."""
    ensure_task(store, letter, now)
    task = store.task(letter.task_id or "")
    if task and known.agent and task.lane == "planned":
        with contextlib.suppress(TreadleError):
            task = claim.claim(store, task.task_id, known.agent, now)
    if known.agent is None and task and task.claim_id and task.claim_id == known.claim_id:
        claim.release(store, task.task_id, claim.Holder(task.owner or "", task.claim_id), now)
    _tie(store, known, task)


def _tie(store: Store, known: LetterRow, task: TaskRow | None) -> None:
    """Let a letter that its task's owner has know by which claim."""
    is_held = task is not None and known.agent is not None and task.owner == known.agent
    claim_id = task.claim_id if task and is_held else None
    if claim_id != known.claim_id:
        table.tie(store, known.letter_id or 0, claim_id)


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
    """Take a tester's word, on coverage if it is named, unless it is the owner's own."""
    task = store.task(letter.task_id or "")
    if task and letter.sender != task.owner and letter.status in ("completed", "failed"):
        if COVERAGE in letter.body.lower():
            _say(store, task, COVERED, letter)
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
        unblock(store, asked.task_id if asked.intent == "escalate" else None, now)
        store.answer(question.question_id, summary(letter), letter.sender, now)


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


def unblock(store: Store, task_id: str | None, now: datetime) -> TaskRow | None:
    """Let work on a task go on that waited for a person: its owner's again, or anybody's."""
    task = store.task(task_id or "")
    if task is None:
        return None
    note = Note(task.owner or TREADLE, "answered", forced=True)
    before, after = change_task(
        store, task.task_id, lambda current: _unblocked(current, now), note, now
    )
    return after if after != before else None


def unblock_within(tx: Store, task_id: str | None, now: datetime) -> TaskRow | None:
    """Let work on a task go on as a part of a change; who makes that shows the task's new files."""
    before = tx.task(task_id or "")
    after = _unblocked(before, now) if before else None
    if before is None or after is None or after == before:
        return None
    after = after._replace(updated_at=utc(now))
    note = Note(before.owner or TREADLE, "answered", forced=True)
    tx.swap_task(before, after, moved_record(before, after, note))
    return after


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


# What a question about a letter is about, if not about what the letter asks.
NO_TASK, OVERDUE = "no_task", "overdue"
NEW_TASK = "a new task"


def _ask_for_task(store: Store, known: LetterRow, letter: Letter, now: datetime) -> str:
    """Ask a person what work belongs to that names no task; until then nobody gets it."""
    asked = f"{letter.sender} asks {letter.to} for work ({letter.intent}) that belongs to no task"
    question = Question(
        "question",
        f"{asked}: {summary(letter)}; answer with a task's id",
        Subject("letter", known.name),
        (Action("answer", NEW_TASK),),
        matter=NO_TASK,
    )
    return questions.ask(store, question, now)


def remind(store: Store, now: datetime) -> None:
    """Ask about letters that nobody acknowledged in time; close what was asked about others."""
    for row in table.overdue(store, format_time(now)):
        holder = row.agent or row.recipient
        said = f"{holder} has not acknowledged a letter from {row.sender} that was due"
        question = Question(
            "question",
            f"{said} {local(row.ack_by or '')}: {row.summary}",
            Subject("letter", row.name),
            (Action("leave"),),
            (f"treadle mail ack --as {holder} {argument(row.name)}",),
            OVERDUE,
            task_id=row.task_id,
        )
        questions.ask(store, question, now)
        table.reminded(store, row)
    for item in store.questions():
        rows = table.named(store, item.subject_id) if item.matter in (NO_TASK, OVERDUE) else None
        if rows is not None and all(row.box not in ("new", "inbox") for row in rows):
            store.answer(item.question_id, "handled", TREADLE, now)


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
    """Put a copy into an agent's INBOX, or a letter of its own into NEW_MESSAGES, once."""
    if any(agent in (copy.agent, copy.recipient) for copy in table.copies(store, known.name)):
        return
    register_agent(mail, agent)
    place, names = index.inbox(mail, agent), _copy_names(mail, known, letter, agent)
    copy = letter._replace(extra=(*letter.extra, (COPY_HEADER, known.name)))
    if is_to_several(letter):
        place, copy = index.NEW, copy._replace(to=agent)
    with contextlib.suppress(FileExistsError):  # somebody else has just made it
        name = drop(mail.root / place.folder, copy, names)
        table.insert(store, [entry_row(copy, place, name, pending=False)])


def _copy_names(mail: MailLayout, known: LetterRow, letter: Letter, agent: str) -> Iterator[str]:
    """Yield what an agent's copy can be called, until the copy itself is found under a name."""
    for name in file_names(letter._replace(to=agent)):
        if locate(mail, name) is None:
            yield name
        with contextlib.suppress(FormatError):
            there = locate(mail, name)
            if there and read_letter(there).header(COPY_HEADER) == known.name:
                return


def _without_command(item: Criterion) -> Criterion:
    text = f"{item.text}: {item.verify}" if item.verify else item.text
    return Criterion(item.id, markdown.without_commands(text))


def refresh(store: Store, mail: MailLayout, now: datetime, *, reading: bool = False) -> list[str]:
    """Take in what changed, and make the effects of letters; return what went wrong.

    Letters that lay in the tree before treadle came change nothing in it while somebody is only
    `reading`: effects in files wait for a command that changes something.
    """
    stale, marks = index.stale(store, mail)
    said = index.take_in(store, mail, stale, marks) if stale else []
    if index.TASKS in stale:
        said += _tasks(store, mail, now)
    since = index.adopted_at(table.folders(store), mail) or 0
    for pending in table.pending(store):
        is_old = index.lay_there(index.path(mail, pending), since)
        if not (is_old and (_adopt_letter(store, mail, pending, now) or reading)):
            said += make_effect(store, mail, pending, now)
    index.give_back(store, mail, now)
    remind(store, now)
    return said


def fresh(layout: Layout, now: datetime) -> tuple[Store, list[str]]:
    """Open the store with every letter in it, and say what was wrong with some."""
    store = Store.open(layout)
    return store, refresh(store, layout.mail, now, reading=True)


def rebuild(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Read every folder again, whatever its time says."""
    again = [row._replace(seen_ns=0) for row in table.folders(store).values()]
    table.mark(store, again)
    return refresh(store, mail, now, reading=True)


def see(store: Store, mail: MailLayout, name: str, letter: Letter, now: datetime) -> list[str]:
    """Take in one letter that was just delivered, with its effect."""
    index.mark_adopted(store, mail)
    new = entry_row(letter, index.NEW, name, pending=has_effect(letter))
    table.insert(store, [new])
    known = table.at(store, NEW_MESSAGES, name)
    return make_effect(store, mail, known, now) if known and known.pending else []


def _tasks(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Take in what others wrote about tasks; a task that they completed takes its letters along."""
    found = take_over_all(store, mail, now)
    for row in [row for task_id in found.done for row in table.of_task(store, task_id)]:
        with contextlib.suppress(NotFoundError):  # somebody else has moved it
            if row.box != "logs":
                index.move_letter(store, mail, row, index.logs(row.agent))
    return found.said


def _adopt_letter(store: Store, mail: MailLayout, known: LetterRow, now: datetime) -> bool:
    """Let a letter that was there before treadle have an effect in rows; False if it has others."""
    question_id = None
    with contextlib.suppress(FormatError):
        letter = read_letter(index.path(mail, known))
        is_asked = letter.intent == "escalate" or letter.to == HUMAN
        if is_to_several(letter):
            return False
        if letter.intent in WORK and letter.task_id:
            _adopt_task(store, mail, known, letter, now)
        elif letter.intent in WORK:
            question_id = _make(store, mail, known, letter, now)
        elif is_asked and not table.answers(store, known):
            question_id = known.question_id or _ask(store, known, letter, now)
        elif not is_asked and not _is_from_files(store, letter):
            return False
    table.settle(store, known.letter_id or 0, question_id)
    return True


def _is_from_files(store: Store, letter: Letter) -> bool:
    """Tell whether the files of a letter's task say how it stands, whatever letters said before."""
    task = store.task(letter.task_id or "")
    return not is_broadcast(letter) and task is not None and task.source == FILES


def _adopt_task(
    store: Store, mail: MailLayout, known: LetterRow, letter: Letter, now: datetime
) -> None:
    """Know the task that a letter asks for, its holder too; its files wait for a change."""
    new = _asked_task(store, mail, letter)._replace(created_at=letter.created_at)
    new = new._replace(updated_at=utc(now))
    if known.agent:
        new = claim.given(new, "claimed", claim.new_claim(known.agent, now), now)
    if not store.task(new.task_id):
        store.write(lambda tx: insert(tx, new, shown_at=new.updated_at))
    _tie(store, known, store.task(new.task_id))


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
        said = see(store, layout.mail, sent.name, letter, now)
        index.give_back(store, layout.mail, now)
        return sent._replace(said=said)
