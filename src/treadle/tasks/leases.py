"""How long a claim lasts, and whose ends soon."""

from datetime import datetime, timedelta

from treadle.ids import is_run_id, utc
from treadle.store.store import Reader
from treadle.store.tasks import TaskRow

LEASE = timedelta(minutes=30)


def due(store: Reader, owner: str, now: datetime) -> list[TaskRow]:
    """Return the tasks of which an owner has used half the lease."""
    found = store.tasks_to_renew(owner, utc(now), utc(now + LEASE / 2))
    return [task for task in found if not is_run_id(task.claim_id or "")]
