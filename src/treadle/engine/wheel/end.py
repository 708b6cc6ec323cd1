"""End a run: tell its task, the desk and whoever asked, note conflicts, land if wished."""

import time

from treadle.config.schema import Config
from treadle.contract.event import EventType
from treadle.engine import letters
from treadle.engine.landing import conflicts, land
from treadle.engine.lock import MAIL
from treadle.engine.run import budget, memory
from treadle.engine.run.memory import next_commands
from treadle.engine.run.run import Run, Tools, readable
from treadle.engine.run.run_files import Manifest
from treadle.engine.wheel.step_folder import OUTBOX
from treadle.errors import BlockedError, GitError, TreadleError
from treadle.git import commit, scratch
from treadle.git.commit import Conflict
from treadle.git.scratch import Scratch
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks import claim, questions
from treadle.tasks.questions import Kind, Question

_RENEW_EVERY = 300.0
# A person's own signal or `stop` needs no question back to that person.
_KINDS: dict[str, Kind] = {"budget_exceeded": "budget", "no_progress": "failed_run"}
_KINDS[memory.WAITS_FOR_APPROVAL] = "approval"
# What stops a worker and only a person can mend.
_KINDS |= dict.fromkeys(
    ("push_refused", "push_stale", "remote_failed", "artifacts_failed", "archive_missing"),
    "failed_run",
)


def is_nothing(run: Run, found: Manifest) -> bool:
    """Tell whether a step ends its run and all there is to do for it: no task, branch or letter."""
    return (
        found.cursor.status == "passed"
        and run.order.task_id is None
        and run.row.branch is None
        and not any(name.startswith(f"{OUTBOX}/") for name in found.files)
    )


def end_run(run: Run) -> None:
    """Tell the task and the desk; doing it twice changes nothing."""
    if run.is_settled:
        return
    store, now = run.tools.store, run.tools.now()
    if run.order.task_id:
        claim.finish_run(store, run.order.task_id, run.id, run.row.status, now)
    if question := _question(run):
        questions.ask(store, question, now)
    letters.tell_end(run)
    store.release(run.id, run.row.claim_epoch, MAIL if letters.are_untold(run) else None)


def keep_claim(run: Run) -> None:
    """Renew the lease on the run's task while a long step works."""
    if run.order.task_id and time.monotonic() - run.claimed_at > _RENEW_EVERY:
        run.claimed_at = time.monotonic()
        claim.renew_run(run.tools.store, run.order.task_id, run.id, run.tools.now())


def _question(run: Run) -> Question | None:
    kind = _kind(run)
    if kind is None or run.row.status == "passed":
        return None
    subject, actions = Subject("run", run.id), _actions(run, kind)
    known = {questions.command(action, subject) for action in actions}
    return Question(
        kind=kind,
        summary=f"{run.order.goal}: {run.kv.get('reason')}",
        subject=subject,
        actions=actions,
        look=tuple(it for it in next_commands(run.row, run.kv) if it not in known),
        run_id=run.id,
        task_id=run.order.task_id,
    )


def _actions(run: Run, kind: Kind) -> tuple[Action, ...]:
    """Return what a person can decide about a run that has not passed."""
    if run.row.status == "failed":
        return (Action("again", target=run.order.task_id), LEAVE)
    if run.kv.get("reason_code") == memory.WAITS_FOR_APPROVAL:
        return (Action("approve", questions.PROTECTED), Action("reject"), LEAVE)
    if run.kv.get("reason_code") == "budget_exceeded":
        needed = str(run.kv.get("budget_needed"))
        return (Action("approve" if kind == "approval" else "resume", needed), LEAVE)
    return (Action("resume"), LEAVE)


def _kind(run: Run) -> Kind | None:
    if run.row.status == "failed":
        return "failed_run"
    is_risky = str(run.kv.get("budget_needed")).startswith(f"{budget.RISKY}=")
    return "approval" if is_risky else _KINDS.get(str(run.kv.get("reason_code")))


def land_automatically(tools: Tools, config: Config, row: RunRow) -> RunRow:
    """Land a passed run; a refusal goes to the desk and holds up nothing."""
    if config.land.run == "auto" and row.status == "passed":
        land_or_ask(tools, row)
    return row


def land_or_ask(tools: Tools, row: RunRow) -> str | None:
    """Land a passed run; a refusal goes to the desk and is returned."""
    with tools.landing:
        return _land(tools, row)


def waits_to_land(tools: Tools, row: RunRow) -> bool:
    """Tell whether a passed run should have landed and could not."""
    kv = tools.store.kv(row.run_id)
    return row.status == "passed" and not memory.landed_commit(kv) and "land_refused" in kv


def _land(tools: Tools, row: RunRow) -> str | None:
    if memory.landed_commit(tools.store.kv(row.run_id)):
        return None
    try:
        found = land.land(tools, row)
    except (BlockedError, GitError) as error:
        tools.note(row.run_id, f"not landed: {error.message}")
        questions.ask(tools.store, _refusal(row, error), tools.now())
        return error.message
    if found.commit:
        tools.note(row.run_id, f"landed as {found.commit[:12]} on {found.branch}")
    return None


def _refusal(row: RunRow, error: TreadleError) -> Question:
    return Question(
        kind="refused_landing",
        summary=f"{row.goal}: not landed: {error.message}",
        subject=Subject("run", row.run_id),
        actions=(Action("land"), LEAVE),
        look=tuple(error.fix),
        run_id=row.run_id,
        task_id=row.task_id,
    )


_RUNS = 50
_FILES = 20
_TOLD = 100  # as many files as a `patch_applied` event names


def note_conflicts(run: Run) -> None:
    """Write down the conflicts with the newest runs that have not landed."""
    if not conflicts.is_active(run.tools.store, run.row):
        return
    mine = _touched(run.tools.store, run.id)
    others = [row for row in run.tools.store.runs(_RUNS) if _meets(run, mine, row)]
    found = _conflicts(run, others) if others else []
    if found or conflicts.CONFLICTS in run.kv:
        run.record(run.cursor(), {conflicts.CONFLICTS: found or None})


def _meets(run: Run, mine: set[str] | None, other: RunRow) -> bool:
    store = run.tools.store
    if other.run_id == run.id or not conflicts.is_active(store, other):
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


def _conflicts(run: Run, others: list[RunRow]) -> list[dict[str, object]]:
    place = scratch.make(run.tools.repo, run.folder.live / "weather")
    try:
        found = [(other, _merge(place, run.head, other.head_commit or "")) for other in others]
    finally:
        scratch.drop(place)
    return [
        {
            "run_id": other.run_id,
            "head": run.head,
            "other_head": other.head_commit,
            "files": [readable(path) for path in conflict.paths[:_FILES]],
        }
        for other, conflict in found
        if conflict
    ]


def _merge(place: Scratch, ours: str, theirs: str) -> Conflict | None:
    try:
        found = commit.merge_commits(place, ours, theirs)
    except GitError:
        return None  # a branch that is gone lands nowhere
    return found if isinstance(found, Conflict) else None
