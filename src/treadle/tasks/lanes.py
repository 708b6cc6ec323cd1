"""The lanes of a task, which lane may follow which, and why a task cannot go there."""

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from treadle.errors import BlockedError, NotFoundError, UsageError
from treadle.ids import hint, is_run_id, local, nearest
from treadle.store.tasks import TaskRow

Lane = Literal[
    "planned",
    "claimed",
    "in_progress",
    "for_review",
    "in_review",
    "approved",
    "done",
    "blocked",
    "canceled",
]
TaskStatus = Literal["new", "claimed", "in_progress", "completed", "blocked", "failed"]

LANES: tuple[Lane, ...] = get_args(Lane)
WALK: tuple[Lane, ...] = LANES[: LANES.index("done") + 1]
HELD: tuple[Lane, ...] = ("claimed", "in_progress")
REVIEW: tuple[Lane, ...] = ("for_review", "in_review", "approved")
FINAL: tuple[Lane, ...] = ("done", "canceled")

_ALIASES: dict[str, Lane] = {"doing": "in_progress"}
_STATUS: dict[Lane, TaskStatus] = {
    "planned": "new",
    "claimed": "claimed",
    "done": "completed",
    "blocked": "blocked",
    "canceled": "failed",
}


def parse(text: str) -> Lane:
    """Return the lane a user names; `doing` is in_progress."""
    found = known(text)
    if found:
        return found
    near = hint(text.lower(), (*LANES, *_ALIASES), or_all=True)
    raise UsageError(f"there is no lane {text!r}{near}")


def known(text: str) -> Lane | None:
    """Return the lane a text names, if there is one."""
    word = text.lower().replace("-", "_")
    return next((lane for lane in LANES if lane in (word, _ALIASES.get(word))), None)


def legal(lane: str) -> tuple[Lane, ...]:
    """Return the lanes that may follow `lane`."""
    if lane in FINAL:
        return ()
    if lane == "blocked":
        return ("in_progress", "canceled")
    onward = WALK[WALK.index(parse(lane)) + 1]
    return (onward, *_back(lane), "blocked", "canceled")


def needs_reason(old: str, new: str) -> bool:
    """Tell whether a move sends reviewed work back, which nobody does without saying why."""
    return old in REVIEW and new in _back(old)


def status(lane: str) -> TaskStatus:
    """Return how letters and task state files call a lane."""
    return _STATUS.get(parse(lane), "in_progress")


def words(task: TaskRow) -> str:
    """Say to a person where a task stands."""
    is_plain = task.lane == "approved" and not task.mission
    return "approved (passed, not landed)" if is_plain else task.lane


def _back(lane: str) -> tuple[Lane, ...]:
    if lane in REVIEW:
        return ("in_progress", "planned")
    return ("planned",) if lane in HELD else ()


def unknown_task(task_id: str, known: Iterable[str]) -> NotFoundError:
    """There is no such task."""
    close = nearest(task_id, known)
    if close:
        return NotFoundError(
            f"there is no task {task_id}; did you mean {close}?", fix=[f"treadle task show {close}"]
        )
    return NotFoundError(f"there is no task {task_id}", fix=["treadle task list"])


def held_by_other(task: TaskRow) -> BlockedError:
    """Someone else works on it."""
    claim = task.claim_id or ""
    fix, by_run = f"treadle task show {task.task_id}", ""
    if is_run_id(claim):
        fix, by_run = f"treadle runs show {claim}", f" (run {claim})"
    said = f", held by {task.owner}{by_run} until {local(task.lease_until or '')}"
    return _blocked(task, "task_held", said, fix)


def held_by_run(task: TaskRow) -> BlockedError:
    """A run is under way for it."""
    run_id = task.claim_id or ""
    return BlockedError(
        f"run {run_id} waits or works for {task.task_id} already",
        code="still_running",
        fix=[f"treadle runs show {run_id}", f"treadle stop {run_id}"],
        details=_details(task),
    )


def not_yours(task: TaskRow, owner: str) -> BlockedError:
    """It was taken over, or never belonged to whoever asks."""
    holder = task.owner if task.claim_id else "nobody"
    said = f", held by {holder} and not by this claim of {owner}"
    return _blocked(task, "task_not_yours", said, f"treadle task show {task.task_id}")


def wrong_lane(task: TaskRow, to: str) -> BlockedError:
    """Its lane does not lead there."""
    onward = legal(task.lane)
    ways = f"from there it can go to {', '.join(onward)}" if onward else f"{task.lane} is final"
    # Sending work back, blocking or canceling it is for whoever judges it; a block is a question.
    is_anyones = onward and not task.claim_id and task.lane != "blocked"
    fix = _way(task, onward[0]) if is_anyones else f"treadle task show {task.task_id}"
    return _blocked(task, "task_wrong_lane", f"{_holder(task)} and cannot become {to}; {ways}", fix)


def waits_for_others(task: TaskRow, needed: Sequence[TaskRow], fix: Iterable[str]) -> BlockedError:
    """Other tasks come first."""
    names = ", ".join(f"{item.task_id} ({item.lane})" for item in needed)
    return _blocked(task, "task_waiting", f" and waits for {names}", *fix)


def passed_already(task: TaskRow, run_id: str) -> BlockedError:
    """It waits to be landed, not to be worked on."""
    id_ = task.task_id
    again = f'treadle task move {id_} --to planned --reason "once more"'
    said = f": run {run_id} passed and has not landed"
    return _blocked(task, "task_passed", said, f"treadle land {run_id}", again)


def not_approved(task: TaskRow) -> BlockedError:
    """A mission's task is done only after its review."""
    belongs = f"{task.task_id} belongs to mission {task.mission} and is {task.lane}{_holder(task)}"
    return BlockedError(
        f"{belongs}; it must be approved before it is done",
        code="task_not_approved",
        fix=[_way(task, legal(task.lane)[0])],
        details=_details(task),
    )


def _blocked(task: TaskRow, code: str, why: str, *fix: str) -> BlockedError:
    said = f"{task.task_id} is {task.lane}{why}"
    return BlockedError(said, code=code, fix=fix, details=_details(task))


def _details(task: TaskRow) -> dict[str, object]:
    known = {"task_id": task.task_id, "lane": task.lane, "owner": task.owner}
    return known | {"legal": list(legal(task.lane))}


def _way(task: TaskRow, lane: str) -> str:
    if lane == "claimed":
        return f"treadle task claim {task.task_id}"
    return f"treadle task move {task.task_id} --to {lane}"


def _holder(task: TaskRow) -> str:
    return f", held by {task.owner}" if task.claim_id else ""
