"""The lanes of a task, and which lane may follow which."""

from typing import Literal, get_args

from treadle.errors import UsageError
from treadle.ids import hint

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


def _back(lane: str) -> tuple[Lane, ...]:
    if lane in REVIEW:
        return ("in_progress", "planned")
    return ("planned",) if lane in HELD else ()
