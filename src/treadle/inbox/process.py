"""Go through the inbox and the specs once, each chain to its end before the next.

What is to be done about a message is decided elsewhere; this performs it: what the store knows
is written first, files are moved second, so that a kill in between is seen and made good.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import filterfalse
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.config.schema import Config
from treadle.contract import EventType, NewEvent
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
from treadle.files import atomic, sync, walk
from treadle.ids import utc
from treadle.inbox import attempt, box, decide, routine, schedule
from treadle.inbox.decide import (
    OPEN,
    Action,
    AskFirst,
    Bury,
    InboxView,
    Known,
    Proceed,
    PutAside,
    ReadyMessage,
    Try,
    Wait,
)
from treadle.inbox.message import ChainPlace, complete
from treadle.inbox.routine import External, Host, require_ready
from treadle.project.context import Context
from treadle.store.messages import MessageRow, waiting
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.tasks import questions
from treadle.text import line

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
_STOPS: Sequence[Status] = ("dead", "stopped", "refused", "held")
_REFUSALS = (BlockedError, GitError, ProjectError)


class Outcome(NamedTuple):
    """How one message, or a spec that was not taken, ended, and the files that follow from it."""

    name: str
    status: Status
    reason: str = ""
    row: MessageRow | None = None
    followups: Sequence[Path] = ()


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


def process(
    tools: Tools, config: Config, *, fail_fast: bool = False, submit: Submit | None = None
) -> Summary:
    """Carry out every waiting message, then every unprocessed spec; `submit` queues their runs."""
    box.require_specs_folder(tools.layout)
    work = Pass(tools, config, submit, _STOPS if fail_fast else ())
    routine.run_hook(tools, config, "beforeAll", {})
    work.go_round()
    if work.outcomes:
        box.settle(tools.layout)
    work.run_hook("afterAll", {})
    return Summary(tuple(work.outcomes), tools.interrupted(), work.failed_hook)


def serve_once(project: Context, watch: Watch) -> Summary:
    """Send what the schedule says, go on with what waited, make a pass."""
    _fire(project, watch)
    config = project.settings.config
    with session.opened(project, watch=watch, now=project.now) as tools:
        for row in memory.due_runs(tools.store, project.now()):
            try:
                goals.resume_run(tools, config, row.run_id, {}, {})
            except BlockedError as error:
                watch(Progress(kind="note", run_id=row.run_id, message=error.message))
        return process(tools, config)


def _fire(project: Context, watch: Watch) -> None:
    """Send what the schedule says for this minute; a file that is wrong is named."""
    layout, now = project.layout, project.now()
    if not layout.cron.is_dir():
        return
    with Store.open(layout) as store:
        for job in schedule.jobs(layout):
            if isinstance(job, FormatError):
                watch(Progress(kind="note", run_id="", message=job.message))
                continue
            last = store.last_fire(job.name)
            if schedule.is_due(job, now, datetime.fromisoformat(last) if last else None):
                store.fired(job.name, now)
                sent = box.send(layout, store, job.draft, now)
                text = f"{job.name}: sent {sent.message_id}"
                watch(Progress(kind="note", run_id="", message=text))


@dataclass
class Pass:
    """One pass over the inbox: what it has seen, what came of it, what the next run builds on."""

    tools: Tools
    config: Config
    submit: Submit | None
    stops: Sequence[Status]
    outcomes: list[Outcome] = field(default_factory=list)
    below: RunRow | None = None
    failed_hook: str | None = None
    _seen: set[str] = field(default_factory=set)

    @property
    def view(self) -> InboxView:
        """Return what decisions are made from."""
        tools = self.tools
        return InboxView(tools.layout, self.config, tools.store, utc(tools.now()))

    @property
    def host(self) -> Host:
        """Return where the user's own commands run."""
        tools = self.tools
        return Host(tools.project, self.config, tools.keeper, tools.interrupted)

    def run_hook(self, hook: routine.Hook, env: dict[str, str]) -> None:
        """Run a hook that can spoil nothing any more; that it failed is told at the end."""
        try:
            routine.run_hook(self.tools, self.config, hook, env)
        except TreadleError as error:
            self.failed_hook = error.message

    def tell(self, message: str) -> None:
        """Say something to whoever watches."""
        self.tools.watch(Progress(kind="note", run_id="", message=message))

    def go_round(self) -> None:
        """Do all there is to do now, and what that brings about."""
        self._stack_on_refused()
        self._warn()
        while not self._is_over() and (self._messages() or self._next_spec()):
            pass

    def _is_over(self) -> bool:
        if self.tools.interrupted():
            return True
        return any(item.status in self.stops for item in self.outcomes)

    def _messages(self) -> bool:
        """Carry out what lies in the inbox now, by name; tell whether there was anything new."""
        new = [name for name in box.names(self.tools.layout) if name not in self._seen]
        for name in new:
            path = self.tools.layout.inbox / name
            self._seen.add(name)
            if self._is_over():
                return False
            if os.path.lexists(path) and not walk.is_folder(path):
                self._drain(path)
        return bool(new)

    def _next_spec(self) -> bool:
        """Make a message of the next spec and carry it out; tell whether there was one."""
        for name in box.unprocessed_specs(self.tools.layout):
            if name in self._seen:
                continue
            self._seen.add(name)
            if message := self._message_for(name):
                self._drain(message)
            return True
        return False

    def _drain(self, path: Path) -> None:
        """Carry out one message and all that follows from it, depth first."""
        stack: list[tuple[Path, MessageRow | None]] = [(path, None)]
        rows: list[MessageRow] = []
        while stack and not self._is_over():
            path, parent = stack.pop()
            self._seen.add(path.name)
            if not os.path.lexists(path):
                continue
            outcome = _carry_out(self, path, parent)
            self.outcomes.append(outcome)
            if row := outcome.row:
                rows.append(row)
                self._seen |= {f"{row.message_id}.md", row.spec or ""}
            stack.extend((child, row) for child in reversed(outcome.followups))
        self._close(rows)

    def _close(self, rows: list[MessageRow]) -> None:
        """Write down how the chain ended: a dead follow-up makes it partial."""
        statuses = {row.status for row in rows}
        if "dead" in statuses and statuses.isdisjoint(OPEN):
            status = "failed" if rows[0].status == "dead" else "partial"
            self.tools.store.close_chain(rows[0].chain, status)

    def _message_for(self, name: str) -> Path | None:
        """Return the file of a spec's message, made or found; None if there is nothing to do."""
        layout, found = self.tools.layout, decide.decide_spec(self.view, name)
        row = found.row
        if found.next == "list":
            box.mark_spec_processed(layout, name)
            return None
        if row and found.next == "leave":
            self.outcomes.append(Outcome(_name(row), "dead", decide.dead_spec(row), row))
            return None
        if row is None:
            new = waiting("", 0, self.view.now)
            row = self.tools.store.add_message(new._replace(spec=name, spec_digest=found.digest))
        path = layout.inbox / f"{row.message_id}.md"
        if path.name in self._seen:
            return None
        if not path.exists():
            box.put(path, decide.spec_message(row, name, found.routine), lasting=False)
        return path

    def _stack_on_refused(self) -> None:
        """Build on what passed in an earlier pass and could not land."""
        store = self.tools.store
        for row in store.messages("refused"):
            tries = decide.tries_of(store, row)
            if tries and tries[-1].state == "refused":
                self.below = store.run(tries[-1].run_id)

    def _warn(self) -> None:
        layout = self.tools.layout
        names = box.spec_names(layout)
        if pair := box.specs_out_of_order(names):
            self.tell(f"{pair[0]} comes before {pair[1]}: names count, not numbers")
        for name in filterfalse(box.is_listable, box.all_specs(layout)):
            self.tell(f"{line(name)} is not taken: its name is not a single line of text")
        for name in sorted(tracker.names(tracker.read(layout)).intersection(names)):
            row, digest = self.tools.store.spec_message(name), box.glance_at_spec(layout, name)[0]
            if row and row.status == "done" and row.spec_digest != digest:
                self.tell(f"{name} was edited after it was processed; it is not run again")


def _carry_out(work: Pass, path: Path, parent: MessageRow | None) -> Outcome:
    """Carry the message of one file out; every way it can end is a value."""
    file = decide.read(work.view, path, parent)
    if isinstance(file, Known):
        router = work.config.commands.router
        external = External(router, work.host) if router is not None else None
        file = _take_in(work.tools, file) if file.is_new else file
        found = decide.decide(work.view, file, external)
    else:
        found = file
    if found.job and not isinstance(found.action, Bury | Wait):
        return _work(work, _complete(work, found.job), found.tries, found.action)
    return _leave(work, path, found.row, found.action)


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
        said = said._replace(notes=(*said.notes, NewEvent(EventType.SEQ_REASSIGNED, text)))
    message = said.message._replace(place=ChainPlace(row.chain, row.seq))
    return known._replace(said=said._replace(message=message), row=row, is_new=False)


def _complete(work: Pass, job: ReadyMessage) -> ReadyMessage:
    """Let the file say all that is known of it, and have its name, before anything is executed."""
    known, message, name = job.known, job.known.message, job.choice.routine.name
    # Who was stopped while choosing has not chosen.
    chosen = None if work.tools.interrupted() else message.routine or name
    data = complete(known.data, message, chosen)
    if data != known.data:
        atomic.write(known.path, data)
    path = known.path.with_name(message.place.name)
    if path != known.path:
        sync.rename_new(known.path, path)
    row = known.row._replace(
        routine=name,
        spec=job.spec_name,
        spec_digest=job.spec.digest if job.spec else None,
    )
    return job._replace(known=known._replace(path=path, data=data, row=row))


def _leave(work: Pass, path: Path, row: MessageRow | None, action: Action) -> Outcome:
    """Do what ends a message's turn: bury it, put it aside, or let it wait."""
    if isinstance(action, Bury):
        return _bury(work, path, action.error, row)
    assert row
    if isinstance(action, PutAside):
        return _put_aside(work, path, row)
    assert isinstance(action, Wait)
    return _wait(work, row, action)


def _wait(work: Pass, row: MessageRow, action: Wait) -> Outcome:
    """Leave a message where it is; one that a signal stopped is as it was."""
    status = "stopped" if action.status == "queued" else action.status
    is_news = (row.status, row.reason) != (status, action.reason)  # else it has its time
    if is_news and status != "interrupted":
        row = _save(work, row, status, action.reason)
    if status == "held":
        work.tell(f"{_name(row)}: {action.reason}")
    if status == "refused":
        work.below = work.tools.store.run(row.run_ids[-1])
    return Outcome(_name(row), action.status, action.reason, row)


def _work(work: Pass, job: ReadyMessage, tries: Sequence[Try], action: Action) -> Outcome:
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
    row = decide.with_runs(row, decide.runs_of(tools.store, row))
    if isinstance(action, Proceed):
        outcome = _finish(work, path, row, before)
    else:
        outcome = _leave(work, path, row, action)
    if is_tried:
        work.run_hook("afterEach", env)
    return outcome


def _attempts(work: Pass, job: ReadyMessage, tries: Sequence[Try], action: Action) -> Action:
    """Run the routine until it passes, stops, or has failed as often as it may."""
    tools, row, most = work.tools, job.known.row, work.config.max_retries
    if isinstance(action, Proceed) and action.how == "land":  # maybe a worker did it elsewhere
        fleet_run.look(tools.layout, tools.store, _run(tools, action.run_id), tools.env)
    while isinstance(action, Proceed) and action.how != "land":
        if action.how == "resume":
            attempt.go_on(tools, work.config, _run(tools, action.run_id))
        else:
            _begin(work, job, tries)
        tries = decide.tries_of(tools.store, row)
        last = tries[-1]
        if last.state == "cut off" or (last.state == "stopped" and tools.interrupted()):
            return Wait("interrupted", last.reason)
        action = decide.follow(row, tries, most, job.choice.routine.name)
    return action


def _begin(work: Pass, job: ReadyMessage, tries: Sequence[Try]) -> None:
    """Run the routine once; the last attempt is told how the ones before it failed."""
    tools = work.tools
    is_last = len(tries) == work.config.max_retries - 1
    context = attempt.failure_context(tools, tries) if tries and is_last else None
    if work.submit and job.choice.routine.kind == "builtin":
        work.submit(attempt.freeze(work.config, job, context))
        return
    run = attempt.begin(tools, work.config, job, work.below, context)
    for earlier in tries:
        questions.settle(tools.store, earlier.run_id, "tried again", tools.now())
    loop.drive_run(run)


def _finish(work: Pass, path: Path, row: MessageRow, before: set[str]) -> Outcome:
    """Land what passed and put the message away; one that cannot land waits."""
    tools = work.tools
    last = _run(tools, row.run_ids[-1])
    refusal = _land(work, last)
    sent = attempt.deliver(tools, row, last)
    followups = list(dict.fromkeys((*sent, *attempt.dropped(tools, row, before))))
    if refusal:
        return _wait(work, row, Wait("refused", refusal))._replace(followups=followups)
    row = _save(work, row, "done", None)
    box.move(path, tools.layout.inbox_done)
    if row.spec:
        box.mark_spec_processed(tools.layout, row.spec)
    work.tell(f"{_name(row)}: done")
    return Outcome(_name(row), "done", "", row, followups)


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


def _bury(work: Pass, path: Path, error: TreadleError, row: MessageRow | None) -> Outcome:
    tools = work.tools
    if row and row.run_ids:
        questions.settle(tools.store, row.run_ids[-1], "dead letter", tools.now())
    name = box.bury(tools.layout, tools.store, path, error, row)
    work.tell(f"{name}: dead letter: {error.message}")
    if row is None:
        return Outcome(name, "dead", error.message)
    row = row._replace(status="dead", reason=error.code)
    return Outcome(_name(row), "dead", error.message, row)


def _put_aside(work: Pass, path: Path, row: MessageRow) -> Outcome:
    """Put a second delivery beside the first, and say so in the timeline of what it asked for."""
    tools = work.tools
    folder = tools.layout.inbox_dead if row.status == "dead" else tools.layout.inbox_done
    target = box.move(path, folder)
    runs = decide.runs_of(tools.store, row)
    if runs and target.name != f"{row.message_id}.md":  # else a kill kept the first one here
        fleet_run.bring_here(tools, runs[-1])
        run = take_over(tools, runs[-1])
        text = f"{row.message_id} was delivered again; it is kept as {target.name}"
        run.record(NewEvent(EventType.DUPLICATE_MESSAGE, text))
        tools.store.release(run.id, run.row.claim_epoch)
    return Outcome(_name(row), "duplicate", "it was delivered before", row)


def _run(tools: Tools, run_id: str) -> RunRow:
    row = tools.store.run(run_id)
    assert row is not None
    return row


def _save(work: Pass, row: MessageRow, status: str, reason: str | None) -> MessageRow:
    row = row._replace(status=status, reason=reason, updated_at=utc(work.tools.now()))
    work.tools.store.save_message(row)
    return row


def _name(row: MessageRow) -> str:
    return row.spec or row.message_id
