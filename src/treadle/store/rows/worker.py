"""The rows of who works in the fleet."""

from typing import NamedTuple

from treadle.store.codec import kept_in


@kept_in("workers")
class WorkerRow(NamedTuple):
    """One worker process of the fleet; its status is alive, draining, left or dead."""

    worker_id: str
    host: str
    pid: int
    slots: int
    busy: int
    status: str
    started_at: str
    beat_at: str
