"""Go through the inbox and the specs once, each chain to its end before the next.

What is to be done about a message is decided elsewhere; this performs it: what the store knows
is written first, files are moved second, so that a kill in between is seen and made good.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.config.load import load
from treadle.config.schema import Config
from treadle.contract import EventType
from treadle.engine import goals, session
from treadle.engine.elsewhere import fleet_run
from treadle.engine.landing import tracker
from treadle.engine.run import memory
from treadle.engine.run.memory import Progress, Watch
from treadle.engine.run.order import Order
from treadle.engine.run.resume import take_over
from treadle.engine.run.run import Tools
from treadle.engine.wheel import end, loop
from treadle.errors import (
    BlockedError,
    ExitCode,
    FormatError,
    GitError,
    ProjectError,
    TreadleError,
)
from treadle.files import walk
from treadle.ids import utc
from treadle.inbox import attempt, box, decide, routine, schedule
from treadle.inbox.attempt import FollowUp
from treadle.inbox.decide import (
    OPEN,
    Action,
    AskFirst,
    Begin,
    Bury,
    Copy,
    Finish,
    InboxView,
    Known,
    ReadyMessage,
    Resume,
    Situation,
    Try,
    Wait,
)
from treadle.inbox.message import ChainPlace, MessageNote, complete
from treadle.inbox.routine import External, Host, require_ready
from treadle.layout import Layout
from treadle.project.context import Context
from treadle.store.messages import MessageRow, waiting
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.tasks import questions

Status = Literal["done", "dead", "stopped", "refused", "held", "duplicate", "interrupted", "queued"]
# Lets a worker drive a run, and returns the row it waits under.
Submit = Callable[[Order], RunRow]

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
_STOPS = ("dead", "stopped", "refused", "held")
_REFUSALS = (BlockedError, GitError, ProjectError)


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
        codes = [_CODES[item.status] for item in self.outcomes]
        return max([*codes, ExitCode.FAILED if self.failed_hook else ExitCode.DONE])


@dataclass
class Pass:
    """One pass over the inbox; `below` is the work that the next run builds on."""

    tools: Tools
    config: Config
    below: RunRow | None = None
    failed_hook: str | None = None
    submit: Submit | None = None

    @property
    def view(self) -> InboxView:
        """Return what decisions are made from."""
        tools = self.tools
        return InboxView(tools.layout, self.config, tools.store, utc(tools.now()))

    @property
    def host(self) -> Host:
        """Return where the user's own commands run."""
        tools, held = self.tools, routine.bounds_for(self.config, self.tools.project)
        return Host(tools.layout.root, tools.env, tools.keeper, held, tools.interrupted)

    def run_hook(self, hook: routine.Hook, env: dict[str, str]) -> None:
        """Run a hook that can spoil nothing any more; that it failed is told at the end."""
        try:
            routine.run_hook(self.tools, self.config, hook, env)
        except TreadleError as error:
            self.failed_hook = error.message

    def tell(self, message: str) -> None:
        """Say something to whoever watches."""
        self.tools.watch(Progress(kind="note", run_id="", message=message))


class Carried(NamedTuple):
    """How a message ended, and what came of it."""

    outcome: Outcome
    followups: Sequence[FollowUp] = ()
    row: MessageRow | None = None


class Server(NamedTuple):
    """What a serving process works with."""

    project: Context
    watch: Watch
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


def process(
    tools: Tools, config: Config, *, fail_fast: bool = False, submit: Submit | None = None
) -> Summary:
    """Carry out every waiting message, then every unprocessed spec; `submit` queues their runs."""
    box.require_specs_folder(tools.layout)
    work = Pass(tools=tools, config=config, submit=submit)
    routine.run_hook(tools, config, "beforeAll", {})
    outcomes = _Round(work, fail_fast).go()
    if outcomes:
        box.settle(tools.layout)
    work.run_hook("afterAll", {})
    return Summary(tuple(outcomes), tools.interrupted(), work.failed_hook)


def serve_once(server: Server) -> Summary:
    """Send what the schedule says, go on with what waited, make a pass."""
    layout = server.project.layout
    _fire(server, layout)
    config = load(layout, server.project.env).config
    with session.opened(server.project, watch=server.watch, now=server.now) as tools:
        for row in memory.due_runs(tools.store, server.now()):
            try:
                goals.resume_run(tools, config, row.run_id, {}, {})
            except BlockedError as error:
                server.watch(Progress(kind="note", run_id=row.run_id, message=error.message))
        return process(tools, config)


def _fire(server: Server, layout: Layout) -> None:
    """Send what the schedule says for this minute; a file that is wrong is named."""
    if not layout.cron.is_dir():
        return
    now = server.now()
    with Store.open(layout) as store:
        for job in schedule.jobs(layout):
            if isinstance(job, FormatError):
                server.watch(Progress(kind="note", run_id="", message=job.message))
                continue
            last = store.last_fire(job.name)
            if schedule.is_due(job, now, datetime.fromisoformat(last) if last else None):
                store.fired(job.name, now)
                sent = box.send(layout, store, job.draft, now)
                text = f"{job.name}: sent {sent.message_id}"
                server.watch(Progress(kind="note", run_id="", message=text))


class _Round:
    """What one pass has seen and what came of it."""

    def __init__(self, work: Pass, fail_fast: bool) -> None:
        self._work = work
        self._tools = work.tools
        self._fail_fast = fail_fast
        self._seen: set[str] = set()
        self._outcomes: list[Outcome] = []

    def go(self) -> list[Outcome]:
        """Do all there is to do now, and what that brings about."""
        self._stack_on_refused()
        self._warn()
        while not self._is_over() and (self._messages() or self._next_spec()):
            pass
        return self._outcomes

    def _is_over(self) -> bool:
        if self._tools.interrupted():
            return True
        return self._fail_fast and any(item.status in _STOPS for item in self._outcomes)

    def _messages(self) -> bool:
        """Carry out what lies in the inbox now, by name; tell whether there was anything new."""
        new = [name for name in box.names(self._tools.layout) if name not in self._seen]
        for name in new:
            path = self._tools.layout.inbox / name
            self._seen.add(name)
            if self._is_over():
                return False
            if os.path.lexists(path) and not walk.is_folder(path):
                self._drain(path)
        return bool(new)

    def _next_spec(self) -> bool:
        """Make a message of the next spec and carry it out; tell whether there was one."""
        for name in box.unprocessed_specs(self._tools.layout):
            if name in self._seen:
                continue
            self._seen.add(name)
            if message := self._message_for(name):
                self._drain(message)
            return True
        return False

    def _drain(self, path: Path) -> None:
        """Carry out one message and all that follows from it, depth first."""
        stack = [FollowUp(path, None)]
        rows: list[MessageRow] = []
        while stack and not self._is_over():
            item = stack.pop()
            self._seen.add(item.path.name)
            if not os.path.lexists(item.path):
                continue
            carried = carry_out(self._work, item.path, item.parent)
            self._outcomes.append(carried.outcome)
            if carried.row:
                rows.append(carried.row)
                self._seen |= {f"{carried.row.message_id}.md", carried.row.spec or ""}
            stack.extend(reversed(carried.followups))
        self._close(rows)

    def _close(self, rows: list[MessageRow]) -> None:
        """Write down how the chain ended: a dead follow-up makes it partial."""
        if not rows or any(row.status in OPEN for row in rows):
            return
        if any(row.status == "dead" for row in rows):
            status = "failed" if rows[0].status == "dead" else "partial"
            self._tools.store.close_chain(rows[0].chain, status)

    def _message_for(self, name: str) -> Path | None:
        """Return the file of a spec's message, made or found; None if there is nothing to do."""
        layout, found = self._tools.layout, decide.decide_spec(self._work.view, name)
        row = found.row
        if found.next == "list":
            box.mark_spec_processed(layout, name)
            return None
        if row and found.next == "leave":
            self._outcomes.append(_outcome(row, "dead", decide.dead_spec(row)))
            return None
        if row is None:
            new = waiting("", 0, self._work.view.now)
            row = self._tools.store.add_message(new._replace(spec=name, spec_digest=found.digest))
        path = layout.inbox / f"{row.message_id}.md"
        if path.name in self._seen:
            return None
        if not path.exists():
            box.put(path, decide.spec_message(row, name, found.routine), lasting=False)
        return path

    def _stack_on_refused(self) -> None:
        """Build on what passed in an earlier pass and could not land."""
        store = self._tools.store
        for row in store.messages("refused"):
            tries = decide.tries_of(store, row)
            if tries and tries[-1].state == "refused":
                self._work.below = store.run(tries[-1].run_id)

    def _warn(self) -> None:
        layout = self._tools.layout
        names = box.spec_names(layout)
        if pair := box.specs_out_of_order(names):
            self._work.tell(f"{pair[0]} comes before {pair[1]}: names count, not numbers")
        for name in box.unlistable_specs(layout):
            self._work.tell(f"{box.show(name)} is not taken: its name is not a single line of text")
        done = tracker.names(tracker.read(layout))
        for name in names:
            row = self._tools.store.spec_message(name) if name in done else None
            if (
                row
                and row.status == "done"
                and row.spec_digest != box.glance_at_spec(layout, name)[0]
            ):
                self._work.tell(f"{name} was edited after it was processed; it is not run again")


def carry_out(work: Pass, path: Path, parent: MessageRow | None = None) -> Carried:
    """Carry the message of one file out; every way it can end is a value."""
    view = work.view
    file = decide.read(view, path, parent)
    found = Situation(file)
    if isinstance(file, Known):
        router = work.config.commands.router
        external = External(router, work.host) if router is not None else None
        file = _take_in(work.tools, file) if file.is_new else file
        found = decide.examine(view, file, external)
    action = decide.decide(found)
    if isinstance(file, Copy):
        return _put_aside(work, file)
    if isinstance(found.job, ReadyMessage) and not isinstance(action, Bury | Wait):
        return _work(work, _complete(work, found.job), found.tries, action)
    row = _with(file.row, found.tries) if file.row else None
    return _leave(work, path, row, action)


def _take_in(tools: Tools, known: Known) -> Known:
    """Give a new message the first number that neither the store nor another file has."""
    row, path, place = known.row, known.path, known.message.place
    while row.chain and path.name != (name := f"{row.message_id}.md"):
        if not os.path.lexists(path.with_name(name)):
            break
        row = row._replace(seq=row.seq + 1, message_id=f"{row.chain}-{row.seq + 1}")
    row = tools.store.add_message(row)
    said = known.said
    if row.seq != place.seq and said.has_seq:
        text = f"{place.id} was taken; this is {row.seq}"
        said = said._replace(notes=(*said.notes, MessageNote(EventType.SEQ_REASSIGNED, text)))
    message = said.message._replace(place=ChainPlace(row.chain, row.seq))
    return known._replace(said=said._replace(message=message), row=row, is_new=False)


def _complete(work: Pass, job: ReadyMessage) -> ReadyMessage:
    """Let the file say all that is known of it, and have its name, before anything is executed."""
    known, message, name = job.known, job.known.message, job.choice.routine.name
    # Who was stopped while choosing has not chosen.
    chosen = None if work.tools.interrupted() else message.routine or name
    data = complete(known.data, message, chosen)
    box.replace(known.path, known.data, data)
    path = box.rename(known.path, message.place.name)
    row = known.row._replace(
        routine=name,
        spec=job.spec_name,
        spec_digest=job.spec.digest if job.spec else None,
    )
    return job._replace(known=known._replace(path=path, data=data, row=row))


def _leave(work: Pass, path: Path, row: MessageRow | None, action: Action) -> Carried:
    """Do what ends a message's turn: bury it, or let it wait."""
    if isinstance(action, Bury):
        return _bury(work, path, action.error, row)
    assert isinstance(action, Wait)
    assert row
    return _wait(work, row, action)


def _wait(work: Pass, row: MessageRow, action: Wait) -> Carried:
    """Leave a message where it is; one that a signal stopped is as it was."""
    status = "stopped" if action.status == "queued" else action.status
    is_news = (row.status, row.reason) != (status, action.reason)  # else it has its time
    if is_news and status != "interrupted":
        row = _save(work, row, status, action.reason)
    if status == "held":
        work.tell(f"{_name(row)}: {action.reason}")
    if status == "refused":
        work.below = work.tools.store.run(row.run_ids[-1])
    return Carried(_outcome(row, action.status, action.reason), row=row)


def _work(work: Pass, job: ReadyMessage, tries: Sequence[Try], action: Action) -> Carried:
    """Ask, or run the routine with the hooks around it and land what it made."""
    tools, row, path = work.tools, job.known.row, job.known.path
    if isinstance(action, AskFirst):
        look = (f"cat '{path}'", "treadle process")
        asked = action.question._replace(actions=questions.APPROVE_OR_NOT, look=look)
        questions.ask(tools.store, asked, tools.now())
        return _wait(work, row, Wait("held", asked.summary))
    if reason := tools.interrupted():
        return _wait(work, row, Wait("interrupted", reason))
    env = {"message_id": row.message_id, "message_file": str(path)}
    before, is_tried = set(box.names(tools.layout)), False
    try:
        routine.run_hook(tools, work.config, "beforeEach", env)
        require_ready(work.host, job.choice.routine)
        action = _attempts(work, job, tries, action)
        is_tried = True
    except _REFUSALS as error:
        action = Wait("held", error.message)
    except TreadleError as error:
        if error.code != "hook_failed":
            raise
        action = Bury(error)
    row = _with(row, decide.tries_of(tools.store, row))
    if isinstance(action, Finish):
        carried = _finish(work, path, row, before)
    else:
        carried = _leave(work, path, row, action)
    if is_tried:
        work.run_hook("afterEach", env)
    return carried


def _attempts(work: Pass, job: ReadyMessage, tries: Sequence[Try], action: Action) -> Action:
    """Run the routine until it passes, stops, or has failed as often as it may."""
    tools = work.tools
    if isinstance(action, Finish):  # a worker may have carried it out elsewhere
        fleet_run.fetch(tools.layout, tools.store, _run(tools, action.run_id), tools.env)
    while isinstance(action, Begin | Resume):
        if isinstance(action, Resume):
            attempt.go_on(tools, work.config, _run(tools, action.run_id))
        else:
            _begin(work, job, tries, action)
        tries = decide.tries_of(tools.store, job.known.row)
        last = tries[-1]
        if last.state == "cut off" or (last.state == "stopped" and tools.interrupted()):
            return Wait("interrupted", last.reason)
        action = decide.go_on(tries, work.config.max_retries, job.choice.routine.name)
    return action


def _begin(work: Pass, job: ReadyMessage, tries: Sequence[Try], action: Begin) -> None:
    """Run the routine once; the last attempt is told how the ones before it failed."""
    tools = work.tools
    context = attempt.failure_context(tools, tries) if action.is_last and tries else None
    if work.submit and job.choice.routine.kind == "builtin":
        work.submit(attempt.freeze(tools, work.config, job, context))
        return
    run = attempt.begin(tools, work.config, job, work.below, context)
    for earlier in tries:
        questions.settle(tools.store, earlier.run_id, "tried again", tools.now())
    loop.drive_run(run)


def _finish(work: Pass, path: Path, row: MessageRow, before: set[str]) -> Carried:
    """Land what passed and put the message away; one that cannot land waits."""
    tools = work.tools
    last = _run(tools, row.run_ids[-1])
    refusal = _land(work, last)
    sent = attempt.deliver(tools, row, last)
    children = {it.path: it for it in (*sent, *attempt.dropped(tools, row, before))}
    followups = list(children.values())
    if refusal:
        return _wait(work, row, Wait("refused", refusal))._replace(followups=followups)
    row = _save(work, row, "done", None)
    box.move(path, tools.layout.inbox_done)
    if row.spec:
        box.mark_spec_processed(tools.layout, row.spec)
    work.tell(f"{_name(row)}: done")
    return Carried(_outcome(row, "done", ""), followups, row)


def _land(work: Pass, last: RunRow) -> str | None:
    """Land the run where that is automatic; return why it could not."""
    if last.branch is None:
        return None
    if work.config.land.process == "manual":
        work.below = last
        return None
    refusal = end.land_or_ask(work.tools, last)
    if refusal is None:
        work.below = None
    return refusal


def _bury(work: Pass, path: Path, error: TreadleError, row: MessageRow | None) -> Carried:
    tools = work.tools
    if row and row.run_ids:
        questions.settle(tools.store, row.run_ids[-1], "dead letter", tools.now())
    name = box.bury(tools.layout, tools.store, path, error, row)
    work.tell(f"{name}: dead letter: {error.message}")
    if row is None:
        return Carried(Outcome(name, "dead", error.message))
    row = row._replace(status="dead", reason=error.code)
    return Carried(_outcome(row, "dead", error.message), row=row)


def _put_aside(work: Pass, found: Copy) -> Carried:
    """Put a second delivery beside the first, and say so in the timeline of what it asked for."""
    tools, row = work.tools, found.row
    folder = tools.layout.inbox_dead if row.status == "dead" else tools.layout.inbox_done
    target = box.move(found.path, folder)
    runs = decide.runs_of(tools.store, row)
    if runs and target.name != f"{row.message_id}.md":  # else a kill kept the first one here
        fleet_run.bring_here(tools, runs[-1])
        run = take_over(tools, runs[-1])
        text = f"{row.message_id} was delivered again; it is kept as {target.name}"
        run.timeline.add(EventType.DUPLICATE_MESSAGE, text)
        run.record()
        tools.store.release(run.id, run.row.claim_epoch)
    return Carried(_outcome(row, "duplicate", "it was delivered before"), row=row)


def _run(tools: Tools, run_id: str) -> RunRow:
    row = tools.store.run(run_id)
    assert row is not None
    return row


def _with(row: MessageRow, tries: Sequence[Try]) -> MessageRow:
    return row._replace(run_ids=tuple(item.run_id for item in tries)) if tries else row


def _save(work: Pass, row: MessageRow, status: str, reason: str | None) -> MessageRow:
    row = row._replace(status=status, reason=reason, updated_at=utc(work.tools.now()))
    work.tools.store.save_message(row)
    return row


def _outcome(row: MessageRow, status: Status, reason: str) -> Outcome:
    return Outcome(_name(row), status, reason, row.message_id, row.routine, row.run_ids)


def _name(row: MessageRow) -> str:
    return row.spec or row.message_id
