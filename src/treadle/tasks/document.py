"""Tasks as programs get them."""

from collections.abc import Sequence
from datetime import datetime

from treadle.store.rows.task import TaskRow
from treadle.store.task_reader import TaskReader
from treadle.tasks import lanes, reserve
from treadle.tasks.show import Shown


def brief(row: TaskRow) -> dict[str, object]:
    """Return one task as a list gives it."""
    return {
        "task_id": row.task_id,
        "goal": row.goal,
        "status": lanes.status(row.lane),
        "lane": row.lane,
        "owner": row.owner,
        "lease_until": row.lease_until,
        "criteria": [item._asdict() for item in row.criteria],
    }


def listed(rows: Sequence[TaskRow]) -> dict[str, object]:
    """Return a list of tasks."""
    return {"tasks": [brief(row) for row in rows]}


def whole(store: TaskReader, found: Shown, now: datetime) -> dict[str, object]:
    """Return one task with what it waits for and what became of it."""
    kept = reserve.live_of(store, found.task.task_id, now)
    return brief(found.task) | {
        "depends_on": [row.task_id for row in found.depends_on],
        "needed_by": [row.task_id for row in found.needed_by],
        "runs": [row._asdict() for row in found.runs],
        "moves": [row._asdict() for row in found.moves],
        "reservations": [row._asdict() for row in kept],
    }
