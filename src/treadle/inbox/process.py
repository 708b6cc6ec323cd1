"""Go through the inbox and the specs once, each chain to its end before the next."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from treadle import frontmatter
from treadle.config.load import load
from treadle.config.schema import Config
from treadle.contract.event import EventType
from treadle.engine import goals, session
from treadle.engine.elsewhere import queue, restore
from treadle.engine.landing import tracker
from treadle.engine.run import memory
from treadle.engine.run.order import Order
from treadle.engine.run.progress import Progress, Watch
from treadle.engine.run.resume import take_over
from treadle.engine.run.run import Tools
from treadle.engine.wheel import end, loop
from treadle.errors import (
    BlockedError,
    FormatError,
    GitError,
    NotFoundError,
    ProjectError,
    TreadleError,
)
from treadle.files import walk
from treadle.ids import utc
from treadle.inbox import attempt, box, decide, hooks, schedule, specs
from treadle.inbox.attempt import FollowUp
from treadle.inbox.decide import OPEN, Duplicate, Job, Known, Outcome, Status, Summary, register
from treadle.inbox.hooks import Host
from treadle.inbox.message import FIELDS, complete
from treadle.inbox.routine import External, require_ready, select
from treadle.layout import Layout
from treadle.project.project import Project
from treadle.store.messages import MessageRow, waiting
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.tasks import questions

MAX_DEPTH = 10
_REFUSALS = (BlockedError, GitError, ProjectError)

# Lets a worker drive a run, and returns the row it waits under.
Submit = Callable[[Order], RunRow]


@dataclass
class Pass:
    """One pass over the inbox; `below` is the work that the next run builds on."""

    tools: Tools
    config: Config
    below: RunRow | None = None
    failed_hook: str | None = None
    submit: Submit | None = None

    @property
    def external(self) -> External | None:
        """Return the user's own router, if there is one."""
        command = self.config.commands.router
        return External(command, self.host) if command is not None else None

    @property
    def host(self) -> Host:
        """Return where the user's own commands run."""
        tools, held = self.tools, hooks.bounds_for(self.config, self.tools.project)
        return Host(tools.layout.root, tools.env, tools.keeper, held, tools.interrupted)

    def tell(self, message: str) -> None:
        """Say something to whoever watches."""
        self.tools.watch(Progress(kind="note", run_id="", message=message))


class Carried(NamedTuple):
    """How a message ended, and what came of it."""

    outcome: Outcome
    followups: Sequence[FollowUp] = ()
    row: MessageRow | None = None


def carry_out(work: Pass, path: Path, parent: MessageRow | None = None) -> Carried:
    """Carry the message of one file out; every way it can end is a value."""
    try:
        known = register(work.tools, path, parent)
    except FormatError as error:
        return _bury(work, path, error, None)
    if isinstance(known, Duplicate):
        return _duplicate(work, known)
    if known.row.status in ("refused", "stopped", "held") and not _has_moved_on(work, known.row):
        return _waits(work, known.row)
    try:
        job = _prepare(work, known)
        question = decide.open_question(work.tools, work.config, job)
    except (FormatError, NotFoundError) as error:
        return _bury(work, path, error, known.row)
    if question:
        return _hold(work, job.known.row, question)
    if reason := work.tools.interrupted():
        return Carried(_outcome(job.known.row, "interrupted", reason), row=job.known.row)
    return _work(work, job)


def _has_moved_on(work: Pass, row: MessageRow) -> bool:
    """Tell whether a message that waited for a human can go on."""
    last = _last_run(work, row)
    if last is None or row.status == "held":
        return True
    if row.status == "refused":
        return not end.waits_to_land(work.tools, last)
    return last.status != "stopped"


def _waits(work: Pass, row: MessageRow) -> Carried:
    reason = row.reason or ""
    status: Status = "refused" if row.status == "refused" else "stopped"
    last = _last_run(work, row)
    if last and _is_with_workers(work, last):
        status = "queued"
    if row.status == "refused":
        work.below = last
    return Carried(_outcome(row, status, reason), row=row)


def _prepare(work: Pass, known: Known) -> Job:
    """Find spec and routine, and complete the file before anything is executed."""
    message, layout = known.message, work.tools.layout
    if known.row.depth >= MAX_DEPTH:
        raise FormatError(
            f"message {message.id} is a follow-up of follow-ups, {known.row.depth} deep",
            code="too_deep",
        )
    spec = specs.read(layout, message.input_file) if message.type == "spec" else None
    found = select(layout, work.config, message, spec, work.external)
    # Who was stopped while choosing has not chosen.
    routine = None if work.tools.interrupted() else found.choice.routine
    data = complete(known.data, message, routine)
    box.replace(known.path, known.data, data)
    path = box.rename(known.path, message.place.name)
    row = known.row._replace(
        routine=found.routine.name,
        spec=spec.name if spec and message.input_file == specs.path_of(spec.name) else None,
        spec_digest=spec.digest if spec else None,
    )
    return Job(known._replace(path=path, data=data, row=row), spec, found)


def _work(work: Pass, job: Job) -> Carried:
    row = job.known.row
    env = {"message_id": row.message_id, "message_file": str(job.known.path)}
    before = set(box.names(work.tools.layout))
    try:
        hooks.run(work.tools, work.config, "beforeEach", env)
        require_ready(work.host, job.selected.routine)
        row, last = _attempts(work, job)
    except _REFUSALS as error:
        return _hold(work, _with(row, _runs(work, row)), error.message)
    except TreadleError as error:
        if error.code != "hook_failed":
            raise
        return _bury(work, job.known.path, error, _with(row, _runs(work, row)))
    carried = _settle(work, job, row, last, before)
    try:
        hooks.run(work.tools, work.config, "afterEach", env)
    except TreadleError as error:
        work.failed_hook = error.message
    return carried


def _hold(work: Pass, row: MessageRow, reason: str) -> Carried:
    if (row.status, row.reason) != ("held", reason):  # else it was said, and has its time
        row = _save(work, row, "held", reason)
    work.tell(f"{_name(row)}: {reason}")
    return Carried(_outcome(row, "held", reason), row=row)


def _attempts(work: Pass, job: Job) -> tuple[MessageRow, RunRow]:
    """Run the routine until it passes, stops, or has failed as often as it may."""
    runs = _runs(work, job.known.row)
    if runs and runs[-1].status == "passed":  # a worker may have carried it out elsewhere
        restore.fetch(work.tools.layout, work.tools.store, runs[-1], work.tools.env)
    if runs and runs[-1].status == "stopped" and _was_cut_off(work, runs[-1]):
        runs[-1] = attempt.go_on(work.tools, work.config, runs[-1])
    while not runs or (runs[-1].status == "failed" and len(runs) < work.config.max_retries):
        runs.append(_try(work, job, runs))
    return _with(job.known.row, runs), runs[-1]


def _try(work: Pass, job: Job, failed: Sequence[RunRow]) -> RunRow:
    """Run the routine once; the last attempt is told how the ones before it failed."""
    tools = work.tools
    is_last = failed and len(failed) == work.config.max_retries - 1
    context = attempt.failure_context(tools, failed) if is_last else None
    if work.submit and job.selected.routine.kind == "builtin":
        return work.submit(attempt.freeze(tools, work.config, job, context))
    run = attempt.begin(tools, work.config, job, work.below, context)
    for earlier in failed:
        questions.settle(tools.store, earlier.run_id, "tried again", tools.now())
    return loop.drive_run(run)


def _settle(work: Pass, job: Job, row: MessageRow, last: RunRow, before: set[str]) -> Carried:
    if last.status == "passed":
        return _passed(work, job, row, last, before)
    if _is_with_workers(work, last):
        row = _save(work, row, "stopped", "its run waits for a worker, or one drives it")
        return Carried(_outcome(row, "queued", row.reason or ""), row=row)
    reason = str(work.tools.store.kv_value(last.run_id, "reason") or last.status)
    if last.status == "stopped":
        if work.tools.interrupted() or _was_cut_off(work, last):
            return Carried(_outcome(row, "interrupted", reason), row=row)
        row = _save(work, row, "stopped", reason)
        return Carried(_outcome(row, "stopped", reason), row=row)
    questions.settle(work.tools.store, last.run_id, "dead letter", work.tools.now())
    tries = f" after {len(row.run_ids)} attempts" if len(row.run_ids) > 1 else ""
    error = TreadleError(
        f"routine {row.routine} failed{tries}: {reason}",
        code="routine_failed",
        fix=[f"treadle why {last.run_id}"],
    )
    return _bury(work, job.known.path, error, row)


def _passed(work: Pass, job: Job, row: MessageRow, last: RunRow, before: set[str]) -> Carried:
    tools = work.tools
    refusal = _land(work, last)
    children = [*attempt.deliver(tools, row, last), *attempt.dropped(tools, row, before)]
    if refusal:
        row = _save(work, row, "refused", refusal)
        work.below = last
        return Carried(_outcome(row, "refused", refusal), _unique(children), row)
    row = _save(work, row, "done", None)
    box.move(job.known.path, tools.layout.inbox_done)
    if row.spec:
        specs.mark_processed(tools.layout, row.spec)
    work.tell(f"{_name(row)}: done")
    return Carried(_outcome(row, "done", ""), _unique(children), row)


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
    name = box.bury(work.tools, path, error, row)
    work.tell(f"{name}: dead letter: {error.message}")
    if row is None:
        return Carried(Outcome(name, "dead", error.message))
    row = row._replace(status="dead", reason=error.code)
    return Carried(_outcome(row, "dead", error.message), row=row)


def _duplicate(work: Pass, found: Duplicate) -> Carried:
    """Put a second delivery beside the first, and say so in the timeline of what it asked for."""
    tools, row = work.tools, found.row
    folder = tools.layout.inbox_dead if row.status == "dead" else tools.layout.inbox_done
    target = box.move(found.path, folder)
    last = _last_run(work, row)
    if last and target.name != f"{row.message_id}.md":  # else a kill kept the first one here
        run = take_over(tools, last)
        text = f"{row.message_id} was delivered again; it is kept as {target.name}"
        run.timeline.add(EventType.DUPLICATE_MESSAGE, text)
        run.record(run.cursor())
        tools.store.release(run.id, run.row.claim_epoch)
    return Carried(_outcome(row, "duplicate", "it was delivered before"), row=row)


def _runs(work: Pass, row: MessageRow) -> list[RunRow]:
    """Return the attempts so far; runs know their message, so a kill loses none."""
    return work.tools.store.message_runs(row.message_id, row.after_run or "")


def _last_run(work: Pass, row: MessageRow) -> RunRow | None:
    runs = _runs(work, row)
    return runs[-1] if runs else None


def _was_cut_off(work: Pass, run: RunRow) -> bool:
    return work.tools.store.kv_value(run.run_id, "reason_code") == "interrupted"


def _is_with_workers(work: Pass, run: RunRow) -> bool:
    kv = work.tools.store.kv(run.run_id)
    return queue.FLEET in kv and (run.status == "running" or queue.is_queued(run, kv))


def _with(row: MessageRow, runs: Sequence[RunRow]) -> MessageRow:
    return row._replace(run_ids=tuple(run.run_id for run in runs))


def _save(work: Pass, row: MessageRow, status: str, reason: str | None) -> MessageRow:
    row = row._replace(status=status, reason=reason, updated_at=utc(work.tools.now()))
    work.tools.store.save_message(row)
    return row


def _outcome(row: MessageRow, status: Status, reason: str) -> Outcome:
    return Outcome(_name(row), status, reason, row.message_id, row.routine, row.run_ids)


def _name(row: MessageRow) -> str:
    return row.spec or row.message_id


def _unique(found: Sequence[FollowUp]) -> Sequence[FollowUp]:
    return list({item.path: item for item in found}.values())


_STOPS = ("dead", "stopped", "refused", "held")


def process(
    tools: Tools, config: Config, *, fail_fast: bool = False, submit: Submit | None = None
) -> Summary:
    """Carry out every waiting message, then every unprocessed spec; `submit` queues their runs."""
    work = Pass(tools=tools, config=config, below=None, submit=submit)
    hooks.run(tools, config, "beforeAll", {})
    outcomes = _Round(work, fail_fast).go()
    if outcomes:
        box.settle(tools.layout)
    try:
        hooks.run(tools, config, "afterAll", {})
    except TreadleError as error:
        work.failed_hook = error.message
    return Summary(tuple(outcomes), tools.interrupted(), work.failed_hook)


class _Round:
    """What one pass has seen and what came of it."""

    def __init__(self, work: Pass, fail_fast: bool) -> None:
        self._work = work
        self._tools = work.tools
        self._fail_fast = fail_fast
        self._specs = specs.Unprocessed(work.tools.layout)
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
        for name in self._specs.names():
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
        layout, store = self._tools.layout, self._tools.store
        row = store.spec_message(name)
        digest, routine = specs.glance(layout, name)
        if row and row.status == "done":
            specs.mark_processed(layout, name)
            return None
        if row and row.status == "dead" and row.spec_digest == digest:
            reason = f"it is a dead letter; treadle dead retry {row.message_id}"
            item = Outcome(name, "dead", reason, row.message_id, row.routine, row.run_ids)
            self._outcomes.append(item)
            return None
        if row is None or row.status == "dead":
            row = self._new_row(name, digest)
        path = layout.inbox / f"{row.message_id}.md"
        if path.name in self._seen:
            return None
        if not path.exists():
            box.put(path, _message_text(row, routine), lasting=False)
        return path

    def _new_row(self, name: str, digest: str | None) -> MessageRow:
        row = waiting("", 0, utc(self._tools.now()))._replace(spec=name, spec_digest=digest)
        return self._tools.store.add_message(row)

    def _stack_on_refused(self) -> None:
        """Build on what passed in an earlier pass and could not land."""
        for row in self._tools.store.messages("refused"):
            last = self._tools.store.run(row.run_ids[-1]) if row.run_ids else None
            if last and end.waits_to_land(self._tools, last):
                self._work.below = last

    def _warn(self) -> None:
        layout = self._tools.layout
        names = specs.names(layout)
        if pair := specs.out_of_order(names):
            self._work.tell(f"{pair[0]} comes before {pair[1]}: names count, not numbers")
        for name in specs.unlistable(layout):
            self._work.tell(f"{box.show(name)} is not taken: its name is no line of text")
        done = tracker.names(tracker.read(layout))
        for name in names:
            row = self._tools.store.spec_message(name) if name in done else None
            if row and row.status == "done" and row.spec_digest != specs.glance(layout, name)[0]:
                self._work.tell(f"{name} was edited after it was processed; it is not run again")


def _message_text(row: MessageRow, routine: str | None) -> bytes:
    fields = {
        "id": row.message_id,
        "chain": row.chain,
        "seq": str(row.seq),
        "type": "spec",
        "input_file": specs.path_of(row.spec or ""),
    }
    if routine:
        fields["routine"] = routine
    return frontmatter.set_fields(b"", fields, FIELDS)


class Server(NamedTuple):
    """What a serving process works with."""

    project: Project
    watch: Watch
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


def serve_once(server: Server) -> Summary:
    """Do all there is to do now and return what came of it."""
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
