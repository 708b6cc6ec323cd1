"""Decide what becomes of a message, and say what a pass would do."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.config.schema import Config
from treadle.contract.event import EventType
from treadle.engine.run.run import Tools
from treadle.engine.wheel.step_folder import MESSAGE_FILE as MESSAGE_FILE
from treadle.errors import ExitCode, FormatError, NotFoundError
from treadle.files import walk
from treadle.ids import utc
from treadle.inbox import box, routine, specs
from treadle.inbox.message import Message, Note, Place, place_in_name, understand
from treadle.inbox.routine import Selected
from treadle.inbox.specs import Spec
from treadle.layout import Layout
from treadle.project.trust import Command
from treadle.store.messages import MessageRow, waiting
from treadle.store.store import Reader
from treadle.tasks import markdown, questions
from treadle.tasks.questions import Question

Status = Literal["done", "dead", "stopped", "refused", "held", "duplicate", "interrupted", "queued"]

_CODES = {
    "done": ExitCode.DONE,
    "duplicate": ExitCode.DONE,
    "queued": ExitCode.DONE,
    "dead": ExitCode.FAILED,
    "refused": ExitCode.BLOCKED,
    "held": ExitCode.BLOCKED,
    "stopped": ExitCode.BUDGET,
    "interrupted": ExitCode.TERMINATED,
}


class Outcome(NamedTuple):
    """How one message, or a spec that was not taken, ended."""

    name: str
    status: Status
    reason: str = ""
    message_id: str | None = None
    routine: str | None = None
    run_ids: tuple[str, ...] = ()

    @property
    def run_id(self) -> str | None:
        """Return the last run."""
        return self.run_ids[-1] if self.run_ids else None


class Summary(NamedTuple):
    """Everything that a pass did, and the signal that ended it, if one did."""

    outcomes: tuple[Outcome, ...]
    interrupted: str | None = None
    failed_hook: str | None = None

    @property
    def exit_code(self) -> ExitCode:
        """Return the worst of all exit codes; a signal is worse than any of them."""
        if self.interrupted:
            is_int = "SIGINT" in self.interrupted
            return ExitCode.INTERRUPTED if is_int else ExitCode.TERMINATED
        codes = [_CODES[item.status] for item in self.outcomes if item.status in _CODES]
        return max([*codes, ExitCode.FAILED if self.failed_hook else ExitCode.DONE])


# A message with one of these is not over: its file in the inbox is the message itself.
OPEN = ("waiting", "stopped", "refused", "held")


class Known(NamedTuple):
    """A message that the store knows, with the bytes of its file."""

    path: Path
    data: bytes
    message: Message
    row: MessageRow
    notes: tuple[Note, ...] = ()


class Duplicate(NamedTuple):
    """A file that was delivered before."""

    path: Path
    row: MessageRow


class Job(NamedTuple):
    """A message that is ready to be carried out."""

    known: Known
    spec: Spec | None
    selected: Selected

    @property
    def text(self) -> str:
        """Return what is to be done, in words."""
        return self.spec.text if self.spec else self.known.message.text


def register(tools: Tools, path: Path, parent: MessageRow | None = None) -> Known | Duplicate:
    """Return the message of a file; FormatError if it cannot be one."""
    store = tools.store
    data = box.read(path)
    named = place_in_name(path.name, store.has_chain)

    def new_chain() -> str:
        return parent.chain if parent else store.reserve_chain(tools.now())

    found = understand(data, named, new_chain)
    place, digest = found.message.place, hashlib.sha256(data).hexdigest()
    row = store.message(place.id)
    if row and row.status in OPEN and path.name == place.name:
        return Known(path, data, found.message, row, found.notes)
    if row and found.has_seq and _is_copy(tools, row, data, digest):
        return Duplicate(path, row)
    row = _add(tools, path, new_row(place, digest, parent, tools.now()))
    notes = found.notes
    if row.seq != place.seq and found.has_seq:
        notes += (Note(EventType.SEQ_REASSIGNED, f"{place.id} was taken; this is {row.seq}"),)
    message = found.message._replace(place=Place(row.chain, row.seq))
    return Known(path, data, message, row, notes)


def preview(store: Reader, path: Path, new_chain: Callable[[], str]) -> Message:
    """Return what a file says, without giving it a place."""
    named = place_in_name(path.name, store.has_chain)
    return understand(box.read(path), named, new_chain).message


def _is_copy(tools: Tools, row: MessageRow, data: bytes, digest: str) -> bool:
    if row.digest == digest:
        return True
    kept = [tools.layout.inbox_done / f"{row.message_id}.md"]
    if row.status == "done":  # a kill may have kept its file from moving there
        kept += [tools.layout.run(run).message / MESSAGE_FILE for run in row.run_ids[-1:]]
    return any(path.is_file() and _has(path, data) for path in kept)


def _has(path: Path, data: bytes) -> bool:
    try:
        return box.read(path) == data
    except FormatError:
        return False


def new_row(place: Place, digest: str, parent: MessageRow | None, now: datetime) -> MessageRow:
    """Return the row of a message that follows from another one, or from none."""
    row = waiting(place.chain, place.seq, utc(now))._replace(digest=digest)
    return row._replace(parent=parent.message_id, depth=parent.depth + 1) if parent else row


def _add(tools: Tools, path: Path, row: MessageRow) -> MessageRow:
    """Give the message the first number that neither the store nor another file has."""
    while _is_name_taken(path, row):
        row = row._replace(seq=row.seq + 1, message_id=f"{row.chain}-{row.seq + 1}")
    return tools.store.add_message(row)


def _is_name_taken(path: Path, row: MessageRow) -> bool:
    name = f"{row.message_id}.md"
    return path.name != name and os.path.lexists(path.with_name(name))


_APPROVE = "approve"
_MOST = 5
_LONGEST = 200


def open_question(tools: Tools, config: Config, job: Job) -> str | None:
    """Return what a human must answer before this is carried out; FormatError if it was a no."""
    row = job.known.row
    if row.parent is None or row.run_ids:
        return None
    for summary in (*_wishes(tools, config, job), *_limits(tools.store, config, row)):
        found = questions.newest(tools.store, summary)
        if found and found.answer == _APPROVE:
            continue
        if found is None or (found.answered_at and found.answered_at < row.updated_at):
            _ask(tools, job, summary)  # for the first time, or because it was tried again
            return summary
        if found.answered_at is None:
            return summary
        raise FormatError(f"{found.answered_by} answered: {found.answer}", code="not_approved")
    return None


def _ask(tools: Tools, job: Job, summary: str) -> None:
    fix = (f"cat '{tools.layout.inbox / job.known.message.place.name}'", "treadle process")
    question = Question("approval", summary, options=(_APPROVE, "drop it"), fix=fix)
    questions.ask(tools.store, question, tools.now())


def _wishes(tools: Tools, config: Config, job: Job) -> Iterator[str]:
    """Yield what an agent's message would run that the user has not named."""
    row, selected = job.known.row, job.selected.routine.name
    if not _is_agents(tools, config, row):
        return
    commands = [item.verify for item in markdown.criteria(job.text) if item.verify]
    wishes = [f"the command `{command[:_LONGEST]}`" for command in commands[:_MOST]]
    if len(commands) > _MOST:
        wishes.append(f"{len(commands) - _MOST} more commands")
    if selected != config.default_routine:
        wishes.append(f"the routine {selected}")
    if wishes:
        digest = hashlib.sha256(job.text.encode()).hexdigest()[:12]
        yield f"{row.message_id}, sent by an agent, would run {', '.join(wishes)} ({digest})"


def _is_agents(tools: Tools, config: Config, row: MessageRow) -> bool:
    """Tell whether the message was sent by an agent, and not by a routine of the user's own."""
    parent = tools.store.message(row.parent or "")
    known = routine.discover(tools.layout, config.notebook_support)
    found = known.get(parent.routine) if parent and parent.routine else None
    return found is None or found.kind == "builtin"


def _limits(store: Reader, config: Config, row: MessageRow) -> Iterator[str]:
    """Yield what asks whether the chain may go on, at every multiple of a limit."""
    limits = config.chain
    if limits.max_messages is not None:
        begun = sum(bool(item.run_ids) for item in store.chain_messages(row.chain))
        if times := begun // limits.max_messages:
            count = times * limits.max_messages
            yield f"chain {row.chain} has carried out {count} messages (chain.max_messages)"
    if limits.max_cost_usd is not None:
        times = int(_cost(store, row.chain) // limits.max_cost_usd)
        if times:
            yield (
                f"chain {row.chain} has cost {times * limits.max_cost_usd:g} USD or more"
                " (chain.max_cost_usd)"
            )


def _cost(store: Reader, chain: str) -> float:
    spent = (store.kv_value(run.run_id, "spent") for run in store.chain_runs(chain))
    return sum(float(item.get("cost_usd", 0)) for item in spent if isinstance(item, dict))


_NEW = "new"


class Planned(NamedTuple):
    """One message or spec, the routine it would get and why, or what is wrong with it."""

    name: str
    message_id: str | None
    routine: str | None
    reason: str
    would: str


def plan(layout: Layout, config: Config, store: Reader) -> list[Planned]:
    """Return what a pass would begin with; a router of the user's own is not asked."""
    return [*_messages(layout, config, store), *_specs(layout, config, store)]


def plan_document(found: Sequence[Planned]) -> dict[str, object]:
    """Return what a pass would do as programs get it."""
    return {"planned": [item._asdict() for item in found]}


def commands(layout: Layout) -> Iterator[Command]:
    """Yield what routines and specs of the project may make treadle run."""
    for path in routine.scripts(layout):
        name = layout.relative(path)
        yield Command("routine", name, name)
    for name in specs.names(layout):
        yield Command("spec", f"the checks of {box.show(name)}", specs.path_of(name))


def _messages(layout: Layout, config: Config, store: Reader) -> Iterator[Planned]:
    for name in box.names(layout):
        path = layout.inbox / name
        if walk.is_folder(path):
            continue
        try:
            message = preview(store, path, lambda: _NEW)
        except FormatError as error:
            yield Planned(box.show(name), None, None, error.message, "dead letter")
            continue
        row = store.message(message.id)
        if row and row.status == "held" and questions.is_open(store, row.reason or ""):
            yield Planned(box.show(name), row.message_id, row.routine, row.reason or "", "nothing")
            continue
        is_new = message.place.chain == _NEW
        yield _planned(layout, config, box.show(name), message, None if is_new else message.id)


def _specs(layout: Layout, config: Config, store: Reader) -> Iterator[Planned]:
    for name in specs.unprocessed(layout):
        row = store.spec_message(name)
        if row is None:
            message = Message(Place(_NEW, 0), "spec", specs.path_of(name), None, {}, b"")
            yield _planned(layout, config, name, message, None)
        elif row.status == "dead":
            yield Planned(name, row.message_id, row.routine, "it is a dead letter", "nothing")


def _planned(
    layout: Layout, config: Config, name: str, message: Message, message_id: str | None
) -> Planned:
    try:
        spec = specs.read(layout, message.input_file) if message.type == "spec" else None
        if spec and not message.routine:
            message = message._replace(routine=spec.routine)
        found = routine.select(layout, config, message, spec, None)
    except (FormatError, NotFoundError) as error:
        return Planned(name, message_id, None, error.message, "dead letter")
    return Planned(name, message_id, found.routine.name, found.choice.reason, "run")
