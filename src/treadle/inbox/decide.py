"""Decide what becomes of a message; nothing is written here.

A pass performs what `decide` says; the dry run, the page and `route` only show it.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from treadle import frontmatter, markdown
from treadle.config.schema import Config
from treadle.engine.lock import is_abandoned
from treadle.engine.run import memory
from treadle.engine.run.step_folder import MESSAGE_FILE
from treadle.errors import FormatError, NotFoundError, TreadleError
from treadle.files import walk
from treadle.ids import utc
from treadle.inbox import box, routine
from treadle.inbox.box import Spec
from treadle.inbox.message import FIELDS, ChainPlace, Message, Understood, place_in_name, understand
from treadle.inbox.routine import Choice, External
from treadle.layout import Layout
from treadle.project.trust import BroughtCommand
from treadle.store.messages import MessageRow, waiting
from treadle.store.questions import QuestionRow, Subject
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks import questions
from treadle.tasks.questions import Question
from treadle.text import line, plural

# A message with one of these is not over: its file in the inbox is the message itself.
OPEN = ("waiting", "stopped", "refused", "held")
MAX_DEPTH = 10
_MOST = 5
_LONGEST = 200
_QUEUED = "its run waits for a worker, or one drives it"


class InboxView(NamedTuple):
    """What is looked at: a project's files, its configuration, its store, and when."""

    layout: Layout
    config: Config
    store: Reader
    now: str


class Known(NamedTuple):
    """A message with the bytes of its file; the row of a new one is not stored yet."""

    path: Path
    data: bytes
    said: Understood
    row: MessageRow
    is_new: bool = False

    @property
    def message(self) -> Message:
        """Return what the file says."""
        return self.said.message


class ReadyMessage(NamedTuple):
    """A message whose spec and routine were found."""

    known: Known
    spec: Spec | None
    choice: Choice

    @property
    def text(self) -> str:
        """Return what is to be done, in words."""
        return self.spec.text if self.spec else self.known.message.text

    @property
    def spec_name(self) -> str | None:
        """Return the spec that is done when the message is; other files are not listed."""
        spec, asked = self.spec, self.known.message.input_file
        return spec.name if spec and asked == box.spec_path(spec.name) else None


class Try(NamedTuple):
    """A run of a message, as far as a decision depends on it."""

    run_id: str
    state: Literal["passed", "refused", "failed", "stopped", "cut off", "queued", "running"]
    reason: str = ""


class Bury(NamedTuple):
    """Make a dead letter of it."""

    error: TreadleError


class PutAside(NamedTuple):
    """Put a second delivery beside the first."""


class Wait(NamedTuple):
    """Leave it: a human, a worker or another process has the next word."""

    status: Literal["stopped", "refused", "held", "queued", "interrupted"]
    reason: str


class AskFirst(NamedTuple):
    """Ask a human whether it may be carried out."""

    question: Question


class Proceed(NamedTuple):
    """Run its routine, go on with a run that was cut off, or land the run that passed."""

    how: Literal["run", "resume", "land"]
    run_id: str = ""


Action = Bury | PutAside | Wait | AskFirst | Proceed


class Decided(NamedTuple):
    """What is to be done about a message, and what that follows from."""

    action: Action
    row: MessageRow | None = None
    tries: tuple[Try, ...] = ()
    job: ReadyMessage | None = None


def read(
    view: InboxView, path: Path, parent: MessageRow | None = None, data: bytes | None = None
) -> Known | Decided:
    """Read a file of the inbox, or the one that `data` would make; some are decided with that."""
    store = view.store
    try:
        data = box.read(path) if data is None else data
        named = place_in_name(path.name, store.has_chain)
        said = understand(data, named, lambda: parent.chain if parent else "")
    except FormatError as error:
        return Decided(Bury(error))
    place, digest = said.message.place, hashlib.sha256(data).hexdigest()
    row = store.message(place.id)
    if row and path.name == place.name:
        if row.status in OPEN:
            return Known(path, data, said, row)
        unburied = box.unfinished_burial(view.layout, path.name) if row.status == "dead" else None
        if unburied:
            return Decided(Bury(unburied), row)
    if row and said.has_seq and _is_copy(view.layout, row, data, digest):
        return Decided(PutAside(), row)
    return Known(path, data, said, new_row(place, digest, parent, view.now), is_new=True)


def _is_copy(layout: Layout, row: MessageRow, data: bytes, digest: str) -> bool:
    if row.digest == digest:
        return True
    kept = [layout.inbox_done / f"{row.message_id}.md"]
    if row.status == "done":  # a kill may have kept its file from moving there
        kept += [layout.run(run).message / MESSAGE_FILE for run in row.run_ids[-1:]]
    return any(path.is_file() and _has(path, data) for path in kept)


def _has(path: Path, data: bytes) -> bool:
    try:
        return box.read(path) == data
    except FormatError:
        return False


def new_row(place: ChainPlace, digest: str, parent: MessageRow | None, now: str) -> MessageRow:
    """Return the row of a message that follows from another one, or from none."""
    row = waiting(place.chain, place.seq, now)._replace(digest=digest)
    return row._replace(parent=parent.message_id, depth=parent.depth + 1) if parent else row


def decide(view: InboxView, known: Known, external: External | None) -> Decided:
    """Say what is to be done about a message now; a router is asked only if it may be run."""
    tries = tries_of(view.store, known.row)
    row = with_runs(known.row, tries)
    if waits := _waits(row, tries):
        return Decided(waits, row, tries)
    try:
        job = _find_job(view, known, external)
    except (FormatError, NotFoundError) as error:
        return Decided(Bury(error), row, tries)
    action = _approval(view, job) if row.parent and not tries else None
    if action is None:
        action = follow(row, tries, view.config.max_retries, job.choice.routine.name)
    return Decided(action, row, tries, job)


def follow(row: MessageRow, tries: Sequence[Try], most: int, routine: str) -> Action:
    """Say what follows from a message's row and its runs."""
    if waits := _waits(row, tries):
        return waits
    last = tries[-1] if tries else None
    if last and last.state in ("passed", "refused"):
        return Proceed("land", last.run_id)
    if last and last.state == "cut off":
        return Proceed("resume", last.run_id)
    if last is None or len(tries) < most:
        return Proceed("run")
    count = f" after {len(tries)} attempts" if len(tries) > 1 else ""
    text = f"routine {routine} failed{count}: {last.reason}"
    why = [f"treadle why {last.run_id}"]
    return Bury(TreadleError(text, code="routine_failed", fix=why))


def _waits(row: MessageRow, tries: Sequence[Try]) -> Wait | None:
    """Say why a message can only wait, whatever it asks for."""
    if not tries:
        return None
    last = tries[-1]
    if last.state == "queued":
        return Wait("queued", _QUEUED)
    if last.state == "running":
        return Wait("held", f"another process drives its run {last.run_id}")
    if row.status == "refused" and last.state == "refused":
        return Wait("refused", row.reason or last.reason)
    if row.status == "stopped" and last.state in ("stopped", "cut off"):
        return Wait("stopped", row.reason or last.reason)
    return Wait("stopped", last.reason) if last.state == "stopped" else None


def runs_of(store: Reader, row: MessageRow) -> list[RunRow]:
    """Return the attempts so far; runs know their message, so a kill loses none."""
    return store.message_runs(row.message_id, row.after_run or "")


def tries_of(store: Reader, row: MessageRow) -> tuple[Try, ...]:
    """Return the attempts so far, as decisions see them."""
    return tuple(_try(store, run) for run in runs_of(store, row))


def with_runs(row: MessageRow, tries: Sequence[Try | RunRow]) -> MessageRow:
    """Return a message's row with the runs that tried it."""
    return row._replace(run_ids=tuple(item.run_id for item in tries)) if tries else row


def _try(store: Reader, row: RunRow) -> Try:
    kept = memory.recall(store, row.run_id)
    reason = kept.reason or row.status
    if kept.is_of_fleet and (row.status == "running" or memory.is_queued(row, kept)):
        return Try(row.run_id, "queued", reason)
    if row.status == "running":
        return Try(row.run_id, "cut off" if is_abandoned(row) else "running", reason)
    if row.status == "stopped":
        is_cut = kept.reason_code == "interrupted"
        return Try(row.run_id, "cut off" if is_cut else "stopped", reason)
    if row.status == "passed":
        is_refused = kept.land_refused and not kept.landed_commit
        return Try(row.run_id, "refused" if is_refused else "passed", reason)
    return Try(row.run_id, "failed", reason)


def _find_job(view: InboxView, known: Known, external: External | None) -> ReadyMessage:
    message = known.message
    if known.row.depth >= MAX_DEPTH:
        raise FormatError(
            f"message {message.id} is a follow-up of follow-ups, {known.row.depth} deep",
            code="too_deep",
        )
    spec = box.read_spec(view.layout, message.input_file) if message.type == "spec" else None
    return ReadyMessage(
        known, spec, routine.select(view.layout, view.config, message, spec, external)
    )


def _approval(view: InboxView, job: ReadyMessage) -> Action | None:
    """Return what comes before a human has approved an agent's wish, or a chain without end.

    What an agent leaves in its outbox is a wish. What a routine of the user's own leaves there
    is the user's word, as the routine is; only the limits of a chain hold for both.
    """
    row = job.known.row
    for question in (*_wishes(view, job), *_limits(view, row)):
        found = questions.newest(view.store, question.subject, question.matter)
        # One that was answered before the message was tried again counts no more.
        is_stale = found and found.answered_at and found.answered_at < row.updated_at
        if found is None or (is_stale and found.action != "approve"):
            return AskFirst(question)
        if found.is_open:
            return Wait("held", question.summary)
        if found.action != "approve":
            text = f"{found.answered_by} answered: {found.answer}"
            return Bury(FormatError(text, code="not_approved"))
    return None


def question_of(store: Reader, row: MessageRow) -> QuestionRow | None:
    """Return the newest question that a message waits for, or has waited for."""
    about = (Subject("message", row.message_id), Subject("chain", row.chain))
    found = [item for subject in about if (item := questions.newest(store, subject))]
    return max(found, key=lambda item: item.created_at, default=None)


def _wishes(view: InboxView, job: ReadyMessage) -> Iterator[Question]:
    """Yield what an agent's message would run that the user has not named."""
    row, selected = job.known.row, job.choice.routine.name
    if not _is_agents(view, row):
        return
    commands = [item.verify for item in markdown.criteria(job.text) if item.verify]
    wishes = [f"the command `{command[:_LONGEST]}`" for command in commands[:_MOST]]
    if len(commands) > _MOST:
        wishes.append(f"{len(commands) - _MOST} more commands")
    if selected != view.config.default_routine:
        wishes.append(f"the routine {selected}")
    if wishes:
        digest = hashlib.sha256(job.text.encode()).hexdigest()[:12]
        summary = f"{row.message_id}, sent by an agent, would run {', '.join(wishes)} ({digest})"
        yield Question("approval", summary, Subject("message", row.message_id), matter=digest)


def _is_agents(view: InboxView, row: MessageRow) -> bool:
    """Tell whether the message was sent by an agent, and not by a routine of the user's own."""
    parent = view.store.message(row.parent or "")
    known = routine.discover(view.layout, view.config.notebook_support)
    found = known.get(parent.routine) if parent and parent.routine else None
    return found is None or found.kind == "builtin"


def _limits(view: InboxView, row: MessageRow) -> Iterator[Question]:
    """Yield what asks whether the chain may go on, at every multiple of a limit."""
    limits, store, chain = view.config.chain, view.store, Subject("chain", row.chain)
    if limits.max_messages is not None:
        begun = sum(bool(item.run_ids) for item in store.chain_messages(row.chain))
        if times := begun // limits.max_messages:
            count = times * limits.max_messages
            summary = (
                f"chain {row.chain} has carried out {plural(count, 'message')} (chain.max_messages)"
            )
            yield Question("approval", summary, chain, matter=f"max_messages={count}")
    if limits.max_cost_usd is not None:
        kept = [memory.recall(store, run.run_id) for run in store.chain_runs(row.chain)]
        cost = sum(item.spent.cost_usd for item in kept if item.spent)
        if times := int(cost // limits.max_cost_usd):
            limit = f"{times * limits.max_cost_usd:g}"
            summary = f"chain {row.chain} has cost {limit} USD or more (chain.max_cost_usd)"
            yield Question("approval", summary, chain, matter=f"max_cost_usd={limit}")


SpecNext = Literal["list", "leave", "begin", "go on"]


class SpecChoice(NamedTuple):
    """What is next for an unprocessed spec, its newest message, its bytes and its routine."""

    next: SpecNext
    row: MessageRow | None
    digest: str | None
    routine: str | None


def decide_spec(view: InboxView, name: str) -> SpecChoice:
    """Say whether a spec gets a message: one that is dead waits until its bytes change."""
    row = view.store.spec_message(name)
    digest, wanted = box.glance_at_spec(view.layout, name)
    if row is None or (row.status == "dead" and row.spec_digest != digest):
        return SpecChoice("begin", None, digest, wanted)
    following: Mapping[str, SpecNext] = {"done": "list", "dead": "leave"}
    return SpecChoice(following.get(row.status, "go on"), row, digest, wanted)


def spec_message(row: MessageRow | None, name: str, wanted: str | None) -> bytes:
    """Return the message that asks for a spec."""
    place = {"id": row.message_id, "chain": row.chain, "seq": str(row.seq)} if row else {}
    fields = {**place, "type": "spec", "input_file": box.spec_path(name)}
    return frontmatter.set_fields(b"", fields | ({"routine": wanted} if wanted else {}), FIELDS)


def dead_spec(row: MessageRow) -> str:
    """Say why a spec that is a dead letter is left alone."""
    return f"it is a dead letter; treadle dead retry {row.message_id}"


class Planned(NamedTuple):
    """One message or spec, the routine it would get and why, or what is wrong with it."""

    name: str
    message_id: str | None
    routine: str | None
    reason: str
    would: str


def plan(layout: Layout, config: Config, store: Reader) -> list[Planned]:
    """Return what a pass would begin with; a router of the user's own is not asked."""
    box.require_specs_folder(layout)
    view = InboxView(layout, config, store, utc(store.now()))
    paths = [layout.inbox / name for name in box.names(layout)]
    found = [_look(view, line(path.name), path) for path in paths if not walk.is_folder(path)]
    messages = [planned for planned, _ in found]
    return [*messages, *_planned_specs(view, {spec for _, spec in found})]


def plan_document(found: Sequence[Planned]) -> dict[str, object]:
    """Return what a pass would do as programs get it."""
    return {"planned": [item._asdict() for item in found]}


def commands(layout: Layout) -> Iterator[BroughtCommand]:
    """Yield what routines and specs of the project may make treadle run."""
    for path in routine.scripts(layout):
        name = layout.relative(path)
        yield BroughtCommand("routine", name, name)
    for name in box.spec_names(layout):
        yield BroughtCommand("spec", f"the checks of {line(name)}", box.spec_path(name))


def _look(
    view: InboxView, name: str, path: Path, data: bytes | None = None
) -> tuple[Planned, str | None]:
    """Return what a pass would do about a file, and the spec that it asks for."""
    file = read(view, path, data=data)
    found = decide(view, file, None) if isinstance(file, Known) else file
    row, job = found.row, found.job
    is_new = isinstance(file, Known) and file.is_new
    is_numbered = row and not (is_new and (not row.chain or view.store.message(row.message_id)))
    would, reason = _in_words(found.action, job)
    planned = Planned(
        name=name,
        message_id=row.message_id if row and is_numbered else None,
        routine=job.choice.routine.name if job else (row.routine if row else None),
        reason=reason,
        would=would,
    )
    return planned, job.spec_name if job else None


def _in_words(action: Action, job: ReadyMessage | None) -> tuple[str, str]:
    """Return how an action is called, and why it is taken."""
    match action:
        case Bury(error):
            return "dead letter", error.message
        case PutAside():
            return "duplicate", "it was delivered before"
        case Wait(_, reason):
            return "nothing", reason
        case AskFirst(question):
            return "ask", question.summary
        case Proceed("run"):
            return "run", job.choice.reason if job else ""
        case Proceed(how, run_id):
            return how, f"run {run_id} {'passed' if how == 'land' else 'was cut off'}"


def _planned_specs(view: InboxView, asked: Collection[str | None]) -> Iterator[Planned]:
    """Yield the specs that no message in the inbox asks for."""
    for name in box.unprocessed_specs(view.layout):
        if name in asked:
            continue
        found = decide_spec(view, name)
        row = found.row
        path = view.layout.inbox / (f"{row.message_id}.md" if row else name)
        if row and found.next == "leave":
            yield Planned(name, row.message_id, row.routine, dead_spec(row), "nothing")
        elif found.next == "begin" or (found.next == "go on" and not path.exists()):
            data = spec_message(row, name, found.routine)
            yield _look(view, name, path, data)[0]
