"""End a run: tell its task, the desk and whoever asked, note conflicts, land if wished."""

import contextlib
import time
from datetime import datetime

from treadle.engine import autoland, letters, notices
from treadle.engine.landing import several
from treadle.engine.lock import MAIL
from treadle.engine.run import memory, outage
from treadle.engine.run.memory import RunMemory, next_commands
from treadle.engine.run.run import Run, reach
from treadle.engine.run.run_files import Manifest
from treadle.engine.run.step_folder import OUTBOX
from treadle.errors import GitError, argument
from treadle.files import walk
from treadle.git import trees, workspace
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.tasks import claim, questions, tries
from treadle.tasks.questions import Kind, Question

_RENEW_EVERY = 300.0
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(memory.OVER_BUDGET, "budget"),
    **dict.fromkeys((memory.WAITS_FOR_APPROVAL, memory.PLAN_WAITS), "approval"),
}
# What nobody needs to decide once another run has done the task.
_MOOT = ("budget", "failed_run")
# A person's own signal or `stop` needs no question back to that person; the others pass by.
_NO_QUESTION = ("interrupted", "usage_limit", "queued")


def is_nothing(run: Run, found: Manifest) -> bool:
    """Tell whether a step ends its run and all there is to do for it: no task, branch or letter."""
    return (
        found.cursor.status == "passed"
        and run.order.task_id is None
        and run.row.branch is None
        and not notices.is_told(run.tools)
        and not any(name.startswith(f"{OUTBOX}/") for name in found.files)
    )


def end_run(run: Run) -> None:
    """Tell everybody who must know that a run has ended, land it if that is wished, let it go.

    A run that has ended and still has an owner did not get to the end of this: whoever finds it
    after a kill calls it again, and what was done before is not done twice.
    """
    if run.row.owner is None:
        return
    reach("before_end")
    _renew_git_dir(run)
    letters.catch_up(run)
    _measure(run)
    tell_desk(run.tools.store, run.row, run.memory, run.tools.now())
    letters.tell_end(run)
    if run.tools.worker is None:
        several.note_conflicts(run)
    reach("before_release")
    if run.row.status == "passed" and run.memory.lands:
        autoland.land_or_ask(run.tools, run.row)
    notices.run_ended(run)
    notices.export_run(run)
    _release(run)


def _renew_git_dir(run: Run) -> None:
    """Prepare for a person who may look next: many shells ask git there."""
    if run.row.branch and walk.is_folder(run.workspace.path) and run.workspace.index.is_file():
        with contextlib.suppress(OSError):  # a full disk, and the run has ended all the same
            workspace.welcome(run.workspace, run.head)


def _measure(run: Run) -> None:
    """Note how much one of several runs has changed: the others are compared with it."""
    trial = run.memory.trial
    if trial is None:
        return
    with contextlib.suppress(GitError):  # a branch that somebody removed
        lines = trees.changed_lines(run.tools.repo, run.row.base_commit or "", run.head)
        if lines != trial.lines:
            run.record(trial=trial._replace(lines=lines))


def tell_desk(store: Store, row: RunRow, known: RunMemory, now: datetime) -> None:
    """Move the lane of an ended run's task, and put on the desk what a person must decide."""
    if row.task_id:
        claim.finish_run(store, row, now)
    _settle_earlier(store, row, now)
    if row.status == "passed":
        questions.settle(store, row.run_id, row.status, now)
    else:
        question, message = _question(row, known), store.message(row.message_id or "")
        if question and message and message.spec:
            drop = f"treadle spec drop {argument(message.spec)}"
            question = question._replace(look=(*question.look, drop))
        questions.ask_only(store, Subject("run", row.run_id), question, now)


def _settle_earlier(store: Store, row: RunRow, now: datetime) -> None:
    """Close what earlier runs of the same task asked: this one goes on without them."""
    if row.task_id is None:
        return
    others = {it.run_id for it in tries.beside(store, row)}
    for item in (it for it in store.questions() if it.run_id not in others):
        if item.task_id == row.task_id and item.kind in _MOOT and (item.run_id or "") < row.run_id:
            questions.close(store, item.subject, f"{row.status} in {row.run_id}", now)


def _release(run: Run) -> None:
    """Let go of a run, unless landing it has done so."""
    row = run.tools.store.run(run.id)
    if row and row.owner:
        owner = MAIL if letters.are_untold(run) else None
        run.tools.store.release(run.id, row.claim_epoch, owner)


def keep_claim(run: Run) -> None:
    """Renew the lease on the run's task while a long step works."""
    if run.order.task_id and time.monotonic() - run.claimed_at > _RENEW_EVERY:
        run.claimed_at = time.monotonic()
        claim.renew(run.tools.store, run.order.task_id, run.id, run.tools.now())


def _question(row: RunRow, known: RunMemory) -> Question | None:
    code = known.reason_code or ""
    is_asked = code in outage.STOPS and known.resume_at and not known.is_of_fleet
    if row.status == "stopped" and (code in _NO_QUESTION or is_asked):
        return None
    kind = _KINDS.get(code, "failed_run") if row.status == "stopped" else "failed_run"
    if known.waiting:
        kind = "approval"
    subject, actions = Subject("run", row.run_id), _actions(row, known, kind)
    given = {questions.command(action, subject) for action in actions}
    look = [command for command in next_commands(row, known) if command not in given]
    asked = questions.of_run(row, kind, str(known.reason), actions, look)
    return questions.of_fleet(asked, row.status, code) if known.is_of_fleet else asked


def _actions(row: RunRow, known: RunMemory, kind: Kind) -> tuple[Action, ...]:
    """Return what a person can decide about a run that has not passed."""
    if kind == "approval":
        what = known.waiting.what if known.waiting else questions.PROTECTED
        return (Action("approve", what), Action("reject"), LEAVE)
    if known.reason_code in memory.OVER_BUDGET:
        return (Action("resume", known.budget_needed), LEAVE)
    where = questions.FLEET if known.is_of_fleet else None
    anew = () if row.message_id else (Action("again", target=row.task_id),)
    return (Action("resume", target=where), *anew, LEAVE)
