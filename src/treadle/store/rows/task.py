"""The rows of tasks and of how they moved."""

import json
from typing import NamedTuple

from treadle.contract.criterion import Criterion
from treadle.store.codec import Row, kept_in


@kept_in("tasks")
class TaskRow(NamedTuple):
    """One task; whoever knows `claim_id` holds it until `lease_until`."""

    task_id: str
    goal: str
    text: str | None
    criteria: tuple[Criterion, ...]
    lane: str
    owner: str | None
    claim_id: str | None
    lease_until: str | None
    mission: str | None
    source: str | None
    created_at: str
    updated_at: str
    position: int


@kept_in("task_moves")
class MoveRow(NamedTuple):
    """One change of a task's lane: who, when and why."""

    task_id: str
    seq: int
    at: str
    who: str
    from_lane: str
    to_lane: str
    reason: str | None
    forced: bool


def to_task(row: Row) -> TaskRow:
    """Read a task."""
    found = TaskRow._make(row)
    criteria = json.loads(row[TaskRow._fields.index("criteria")])
    return found._replace(criteria=tuple(Criterion(*item) for item in criteria))


def to_move(row: Row) -> MoveRow:
    """Read a task's change of lane."""
    found = MoveRow._make(row)
    return found._replace(forced=bool(found.forced))
