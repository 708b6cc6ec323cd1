"""Carry one message out: take it in, try its routine, land it, put its file where it belongs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from treadle.config.schema import Config
from treadle.contract.event import EventType
from treadle.engine import autoland, load, loop, queue, restore
from treadle.engine.order import Order
from treadle.engine.progress import Progress
from treadle.engine.run import Tools
from treadle.errors import (
    BlockedError,
    FormatError,
    GitError,
    NotFoundError,
    ProjectError,
    TreadleError,
)
from treadle.ids import utc
from treadle.inbox import (
    approval,
    attempt,
    bounds,
    box,
    dead,
    followups,
    hooks,
    normalize,
    precheck,
    select,
    specs,
)
from treadle.inbox.attempt import Job
from treadle.inbox.bounds import Host
from treadle.inbox.followups import FollowUp
from treadle.inbox.outcome import Outcome, Status
from treadle.inbox.register import Duplicate, Known, register
from treadle.inbox.router import External
from treadle.store.rows.message import MessageRow
from treadle.store.rows.run import RunRow
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
        tools, held = self.tools, bounds.around(self.config, self.tools.project)
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
        question = approval.open_question(work.tools, work.config, job)
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
        return not autoland.waits(work.tools, last)
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
    found = select.select(layout, work.config, message, spec, work.external)
    # Who was stopped while choosing has not chosen.
    routine = None if work.tools.interrupted() else found.choice.routine
    data = normalize.complete(known.data, message, routine)
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
        precheck.require(work.host, job.selected.routine)
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
    children = [*followups.deliver(tools, row, last), *followups.dropped(tools, row, before)]
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
    refusal = autoland.bring(work.tools, last)
    if refusal is None:
        work.below = None
    return refusal


def _bury(work: Pass, path: Path, error: TreadleError, row: MessageRow | None) -> Carried:
    name = dead.bury(work.tools, path, error, row)
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
        run = load.take_over(tools, last)
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
