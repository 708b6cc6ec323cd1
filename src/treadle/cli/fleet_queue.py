"""Call off a run that waits for a worker; loaded only when there is one."""

from datetime import UTC, datetime

from treadle.engine import queue
from treadle.store.records import RunRow
from treadle.store.writer import Store


def call_off(store: Store, row: RunRow, reason: str) -> None:
    """Take a waiting run out of the queue."""
    queue.call_off(store, row, reason, datetime.now(UTC))
