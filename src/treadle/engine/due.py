"""Find the runs whose usage limit is over; whoever waits for them loads nothing else."""

from datetime import datetime

from treadle.ids import utc
from treadle.store.runs import RunRow
from treadle.store.store import Reader

RESUME_AT = "resume_at"


def runs(store: Reader, now: datetime) -> list[RunRow]:
    """Return the stopped runs whose usage limit is over by now, oldest first."""
    found = (store.run(run_id) for run_id in store.runs_with_key(RESUME_AT))
    return [row for row in found if row and row.status == "stopped" and _is_over(store, row, now)]


def _is_over(store: Reader, row: RunRow, now: datetime) -> bool:
    at = store.kv_value(row.run_id, RESUME_AT)
    return isinstance(at, str) and at <= utc(now)
