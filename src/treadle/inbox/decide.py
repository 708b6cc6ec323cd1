"""Decide what becomes of a message; nothing is written here.

A pass performs what `decide` says; the dry run, the page and `route` only show it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from treadle import markdown
from treadle.contract.events import StepError
from treadle.engine.lock import is_abandoned
from treadle.engine.run import memory
from treadle.engine.run.step_folder import MESSAGE_FILE
from treadle.errors import FormatError, NotFoundError, TreadleError
from treadle.inbox import box, routine, specs
from treadle.inbox.known import (
    OPEN,
    Action,
    AskFirst,
    Bury,
    Decided,
    InboxView,
    Known,
    Proceed,
    PutAside,
    ReadyMessage,
    Try,
    Wait,
)
from treadle.inbox.message import ChainPlace, place_in_name, understand
from treadle.inbox.routine import External
from treadle.layout import Layout
from treadle.store.messages import MessageRow, waiting
from treadle.store.questions import Subject
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks import questions
from treadle.tasks.questions import Question
from treadle.text import plural

MAX_DEPTH = 10
_MOST = 5
_LONGEST = 200
_OF_THE_MACHINE = (StepError.AGENT_MISSING, StepError.SETUP_FAILED)
_QUEUED = "its run waits for a worker, or one drives it"


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
        if row.status == "dropped":  # a kill kept its file here
            return Decided(PutAside(), row)
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
    failed = sum(item.state == "failed" for item in tries)
    if last is None or last.state == "not begun" or failed < most:
        return Proceed("run")
    count = f" after {failed} attempts" if failed > 1 else ""
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
    if row.status == "stopped" and last.state == "cut off":
        return Wait("stopped", row.reason or last.reason)
    # A person may have gone on with it since the last pass, so that the row's reason is old.
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
    is_begun = row.current_step_index > 0 and kept.reason_code not in _OF_THE_MACHINE
    return Try(row.run_id, "failed" if is_begun else "not begun", reason)


def _find_job(view: InboxView, known: Known, external: External | None) -> ReadyMessage:
    message = known.message
    if known.row.depth >= MAX_DEPTH:
        raise FormatError(
            f"message {message.id} is a follow-up of follow-ups, {known.row.depth} deep",
            code="too_deep",
        )
    spec = specs.read_spec(view.layout, message.input_file) if message.type == "spec" else None
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


def _wishes(view: InboxView, job: ReadyMessage) -> Iterator[Question]:
    """Yield what an agent's message would run that the user has not named."""
    row, selected = job.known.row, job.choice.routine.name
    if not _is_agents(view, row):
        return
    commands = [item.verify for item in markdown.criteria(job.text) if item.verify]
    wishes = [f"the command `{command[:_LONGEST]}`" for command in commands[:_MOST]]
    if len(commands) > _MOST:
        wishes.append(plural(len(commands) - _MOST, "more command"))
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
