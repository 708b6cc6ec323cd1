"""End a run: tell its task, the desk and whoever asked, note conflicts, land if wished."""

import time
from collections.abc import Sequence
from datetime import datetime

from treadle.contract import EventType
from treadle.engine import letters
from treadle.engine.landing import land
from treadle.engine.lock import MAIL
from treadle.engine.run import memory, order
from treadle.engine.run.memory import ClashNote, RunMemory, next_commands
from treadle.engine.run.run import Run, Tools, reach, readable
from treadle.engine.run.run_files import Manifest
from treadle.engine.run.step_folder import OUTBOX
from treadle.errors import BlockedError, GitError
from treadle.git import build, scratch
from treadle.git.build import Conflict
from treadle.git.scratch import Scratch
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store
from treadle.tasks import claim, questions
from treadle.tasks.questions import Kind, Question

_RENEW_EVERY = 300.0
_KINDS: dict[str, Kind] = {"budget_exceeded": "budget", memory.WAITS_FOR_APPROVAL: "approval"}
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
    letters.catch_up(run)
    tell_desk(run.tools.store, run.row, run.memory, run.tools.now())
    letters.tell_end(run)
    if run.tools.worker is None:
        note_conflicts(run)
    reach("before_release")
    if run.row.status == "passed" and run.memory.lands:
        land_or_ask(run.tools, run.row)
    _release(run)


def tell_desk(store: Store, row: RunRow, known: RunMemory, now: datetime) -> None:
    """Move the lane of an ended run's task, and put on the desk what a person must decide."""
    if row.task_id:
        claim.finish_run(store, row.task_id, row.run_id, row.status, now)
    if row.status == "passed":
        questions.settle(store, row.run_id, row.status, now)
        _settle_earlier(store, row, now)
    elif question := _question(row, known):
        questions.ask(store, question, now)


def _settle_earlier(store: Store, row: RunRow, now: datetime) -> None:
    """Close what earlier runs of the same task asked: it has been done without them."""
    for item in store.questions() if row.task_id else ():
        if item.task_id == row.task_id and item.kind in _MOOT:
            questions.close(store, item.subject, f"passed in {row.run_id}", now)


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
    if row.status == "stopped" and code in _NO_QUESTION:
        return None
    kind = _KINDS.get(code, "failed_run") if row.status == "stopped" else "failed_run"
    if (known.budget_needed or "").startswith(f"{order.RISKY_FILES}="):
        kind = "approval"
    subject, actions = Subject("run", row.run_id), _actions(row, known, kind)
    given = {questions.command(action, subject) for action in actions}
    look = [command for command in next_commands(row, known) if command not in given]
    return _about(row, kind, str(known.reason), actions, look)


def _about(
    row: RunRow, kind: Kind, text: str, actions: tuple[Action, ...], look: Sequence[str]
) -> Question:
    return Question(
        kind=kind,
        summary=f"{row.goal}: {text}",
        subject=Subject("run", row.run_id),
        actions=actions,
        look=tuple(look),
        run_id=row.run_id,
        task_id=row.task_id,
    )


def _actions(row: RunRow, known: RunMemory, kind: Kind) -> tuple[Action, ...]:
    """Return what a person can decide about a run that has not passed."""
    if row.status == "failed":
        return (Action("again", target=row.task_id), LEAVE)
    if known.reason_code == memory.WAITS_FOR_APPROVAL:
        return (Action("approve", questions.PROTECTED), Action("reject"), LEAVE)
    if known.reason_code == "budget_exceeded":
        needed = str(known.budget_needed)
        return (Action("approve" if kind == "approval" else "resume", needed), LEAVE)
    where = questions.FLEET if known.is_of_fleet else None
    return (Action("resume", target=where), LEAVE)


def land_or_ask(tools: Tools, row: RunRow) -> str | None:
    """Land a passed run; a refusal goes to the desk and is returned."""
    with tools.landing:
        if memory.recall(tools.store, row.run_id).landed_commit:
            return None
        try:
            found = land.land(tools, row)
        except (BlockedError, GitError) as error:
            text, actions = f"not landed: {error.message}", (Action("land"), LEAVE)
            tools.note(row.run_id, text)
            question = _about(row, "refused_landing", text, actions, error.fix)
            questions.ask(tools.store, question, tools.now())
            return error.message
    if found.commit:
        tools.note(row.run_id, f"landed as {found.commit[:12]} on {found.branch}")
    return None


def waits_to_land(tools: Tools, row: RunRow) -> bool:
    """Tell whether a passed run should have landed and could not."""
    known = memory.recall(tools.store, row.run_id)
    return row.status == "passed" and not known.landed_commit and known.land_refused is not None


_RUNS = 50
_FILES = 20
_TOLD = 100  # as many files as a `patch_applied` event names


def note_conflicts(run: Run) -> None:
    """Write down the conflicts with the newest runs that have not landed."""
    if not memory.may_land(run.tools.store, run.row):
        return
    mine = _touched(run.tools.store, run.id)
    others = [row for row in run.tools.store.runs(_RUNS) if _meets(run, mine, row)]
    found = _conflicts(run, others) if others else ()
    if found or run.memory.weather:
        run.record(weather=found)


def _meets(run: Run, mine: set[str] | None, other: RunRow) -> bool:
    store = run.tools.store
    if other.run_id == run.id or not memory.may_land(store, other):
        return False
    theirs = _touched(store, other.run_id)
    return mine is None or theirs is None or not mine.isdisjoint(theirs)


def _touched(store: Reader, run_id: str) -> set[str] | None:
    """Return the files a run changed, or None if its events do not name them all."""
    found: set[str] = set()
    for event in store.events(run_id):
        if event.type == EventType.PATCH_APPLIED:
            files = (event.data or {}).get("files")
            if not isinstance(files, list) or len(files) >= _TOLD:
                return None
            found.update(map(str, files))
    return found


def _conflicts(run: Run, others: list[RunRow]) -> tuple[ClashNote, ...]:
    place = scratch.make(run.tools.repo, run.folder.live / "weather")
    try:
        found = [(other, _merge(place, run.head, other.head_commit or "")) for other in others]
    finally:
        scratch.drop(place)
    return tuple(
        ClashNote(other.run_id, run.head, other.head_commit, tuple(map(readable, paths[:_FILES])))
        for other, paths in found
        if paths
    )


def _merge(place: Scratch, ours: str, theirs: str) -> Sequence[str]:
    """Return the files in which two commits cannot be merged."""
    try:
        found = build.merge_commits(place, ours, theirs)
    except GitError:
        return ()  # a branch that is gone lands nowhere
    return found.paths if isinstance(found, Conflict) else ()
