"""Carry out one message: take it in, have its routine run, land and put away what passed.

What the store knows is written first, files are moved second, so that a kill in between is seen
and made good.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from treadle.contract.events import EventType, NewEvent
from treadle.engine import autoland
from treadle.engine.elsewhere import fleet_run
from treadle.engine.landing import tracker
from treadle.engine.run.resume import take_over
from treadle.engine.run.run import Tools
from treadle.errors import TreadleError, argument
from treadle.files import atomic, sync
from treadle.ids import utc
from treadle.inbox import attempt, box, decide
from treadle.inbox.attempt import Tried, hook_environment, try_out
from treadle.inbox.known import (
    Action,
    AskFirst,
    Bury,
    Decided,
    Known,
    Proceed,
    PutAside,
    ReadyMessage,
    Try,
    Wait,
    Work,
)
from treadle.inbox.message import ChainPlace, complete
from treadle.inbox.outcome import Outcome
from treadle.inbox.routine import External
from treadle.inbox.spec_choice import unmerged_branch
from treadle.store.messages import MessageRow
from treadle.store.questions import LEAVE, Subject
from treadle.store.questions import Action as Answer
from treadle.store.runs import RunRow
from treadle.tasks import questions
from treadle.tasks.questions import Question


def ask_about(tools: Tools, name: str, row: MessageRow | None, reason: str, *look: str) -> None:
    """Put what keeps a spec or a message from being carried out on the desk."""
    spec = name if row is None else row.spec
    about = Subject("spec", spec) if spec else Subject("message", row.message_id if row else name)
    actions = (Answer("retry"), Answer("reject")) if spec else (Answer("resume"), LEAVE)
    question = Question("held", f"{name}: {reason}", about, actions, look, "held")
    last = questions.newest(tools.store, about, "held")
    is_left = last and last.action == "leave" and questions.is_same(last, question)
    if is_left and row and row.status == "held":
        return
    questions.ask_only(tools.store, about, question, tools.now(), "held")


def decide_on(work: Work, path: Path, parent: MessageRow | None) -> Decided:
    """Take a file in and say what is to be done about it."""
    file = decide.read(work.view, path, parent)
    if not isinstance(file, Known):
        return file
    router = work.config.commands.router
    external = External(router, work.host) if router is not None else None
    file = _take_in(work.tools, file) if file.is_new else file
    return decide.decide(work.view, file, external)


def carry_out(work: Work, path: Path, parent: MessageRow | None) -> Outcome:
    """Carry the message of one file out; every way it can end is a value."""
    found = decide_on(work, path, parent)
    if found.job and not isinstance(found.action, Bury | Wait):
        return _work(work, complete_file(work, found.job), found.tries, found.action)
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


def complete_file(work: Work, job: ReadyMessage) -> ReadyMessage:
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


def _leave(work: Work, path: Path, row: MessageRow | None, action: Action) -> Outcome:
    """Do what ends a message's turn: bury it, put it aside, or let it wait."""
    if isinstance(action, Bury):
        return _bury(work, path, action.error, row)
    assert row
    if isinstance(action, PutAside):
        return _put_aside(work, path, row)
    assert isinstance(action, Wait)
    return _wait(work, row, action)


def _wait(work: Work, row: MessageRow, action: Wait) -> Outcome:
    """Leave a message where it is; one that a signal stopped is as it was."""
    status = "stopped" if action.status == "queued" else action.status
    is_news = (row.status, row.reason) != (status, action.reason)  # else it has its time
    if is_news and status not in ("interrupted", "spent", "down"):
        row = _save(work, row, status, action.reason)
    if status == "held":
        work.tell(f"{_name(row)}: {action.reason}")
    if status == "refused":
        work.below = work.tools.store.run(row.run_ids[-1])
    return Outcome(_name(row), action.status, action.reason, row, fix=action.fix)


def _work(work: Work, job: ReadyMessage, tries: Sequence[Try], action: Action) -> Outcome:
    """Ask, or run the routine with the hooks around it and land what it made."""
    tools, row, path = work.tools, job.known.row, job.known.path
    if isinstance(action, AskFirst):
        look = (f"cat {shlex.quote(str(path))}",)
        asked = action.question._replace(actions=questions.APPROVE_OR_NOT, look=look)
        questions.ask(tools.store, asked, tools.now())
        return _wait(work, row, Wait("held", asked.summary))
    return conclude(work, job, try_out(work, job, tries, action))


def conclude(work: Work, job: ReadyMessage, tried: Tried) -> Outcome:
    """Land and put away what passed, or do what else follows from how the routine ended."""
    action, known = tried.action, job.known
    row = decide.with_runs(known.row, decide.runs_of(work.tools.store, known.row))
    if isinstance(action, Proceed):
        outcome = _finish(work, job._replace(known=known._replace(row=row)), tried.before)
    else:
        outcome = _leave(work, known.path, row, action)
    if isinstance(action, Wait) and action.status == "held":
        _ask_held(work, row, action)
    if tried.is_tried:
        work.run_hook("afterEach", hook_environment(job))
    return outcome


def _ask_held(work: Work, row: MessageRow, action: Wait) -> None:
    """Put what holds a message on the desk, in place of what its last run asked."""
    for run_id in row.run_ids[-1:]:
        questions.settle(work.tools.store, run_id, "held", work.tools.now())
    why = f"treadle why {row.run_ids[-1]}" if row.run_ids else "treadle doctor"
    show = [f"treadle spec show {argument(row.spec)}"] if row.spec else []
    ask_about(work.tools, _name(row), row, action.reason, *action.look, *show, why)


def _finish(work: Work, job: ReadyMessage, before: set[str]) -> Outcome:
    """Land what passed and put the message away; one that cannot land waits."""
    tools, row = work.tools, job.known.row
    last = work.run(row.run_ids[-1])
    sent = list(attempt.deliver(tools, row, last))  # landing takes the workspace away
    refusal = _land(work, job, last)
    followups = list(dict.fromkeys((*sent, *attempt.dropped(tools, row, before))))
    if refusal:
        return _wait(work, row, Wait("refused", refusal))._replace(followups=followups)
    row = _save(work, row, "done", None)
    _list_spec(work, row)
    box.move(job.known.path, tools.layout.inbox_done)
    work.tell(f"{_name(row)}: done")
    return Outcome(_name(row), "done", "", row, followups)


def _list_spec(work: Work, row: MessageRow) -> None:
    """List the spec of a message that is done, before its file goes: after that it was listed."""
    work.look_where_the_user_is()
    if unmerged_branch(work.tools.store, row.run_ids[-1] if row.run_ids else None):
        return
    if row.spec and row.spec not in work.view.processed:
        tracker.put_in(work.tools.layout, row.spec)


def _land(work: Work, job: ReadyMessage, last: RunRow) -> str | None:
    """Land the run where that is automatic; return why it could not."""
    if last.branch is None:
        return None
    asked = job.spec.wish.land if job.spec else None
    if (asked or work.config.land.process) == "manual":
        work.below = last
        return None
    refusal = autoland.land_or_ask(work.tools, last, asked)
    if refusal is None:
        work.below = None
    return refusal


def _bury(work: Work, path: Path, error: TreadleError, row: MessageRow | None) -> Outcome:
    tools = work.tools
    if row and row.run_ids:
        questions.settle(tools.store, row.run_ids[-1], "dead letter", tools.now())
    name = box.bury(tools.layout, tools.store, path, error, row)
    work.tell(f"{name}: dead letter: {error.message}")
    if row is None:
        return Outcome(name, "dead", error.message)
    row = row._replace(status="dead", reason=error.code)
    return Outcome(_name(row), "dead", error.message, row)


def _put_aside(work: Work, path: Path, row: MessageRow) -> Outcome:
    """Put a second delivery beside the first, and say so in the timeline of what it asked for."""
    tools = work.tools
    folder = tools.layout.inbox_dead if row.status == "dead" else tools.layout.inbox_done
    if row.status == "done":
        _list_spec(work, row)
    target = box.move(path, folder)
    runs = decide.runs_of(tools.store, row)
    if runs and target.name != f"{row.message_id}.md":  # else a kill kept the first one here
        fleet_run.bring_here(tools, runs[-1])
        run = take_over(tools, runs[-1])
        text = f"{row.message_id} was delivered again; it is kept as {target.name}"
        run.record(NewEvent(EventType.DUPLICATE_MESSAGE, text))
        tools.store.release(run.id, run.row.claim_epoch)
    return Outcome(_name(row), "duplicate", "it was delivered before", row)


def _save(work: Work, row: MessageRow, status: str, reason: str | None) -> MessageRow:
    row = row._replace(status=status, reason=reason, updated_at=utc(work.tools.now()))
    work.tools.store.save_message(row)
    return row


def _name(row: MessageRow) -> str:
    return row.spec or row.message_id
