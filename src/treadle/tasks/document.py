"""Tasks as programs get them."""

from collections.abc import Sequence

from treadle.store.tasks import TaskRow
from treadle.tasks import lanes


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
