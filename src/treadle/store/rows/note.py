"""The rows of what letters say about tasks, and of files kept to them."""

from typing import NamedTuple

from treadle.store.codec import kept_in


@kept_in("task_claims")
class TaskClaimRow(NamedTuple):
    """What a letter says about a task's checks."""

    task_id: str
    name: str
    value: bool
    claimed_by: str
    claimed_at: str


@kept_in("reservations")
class ReservationRow(NamedTuple):
    """Files that an owner keeps to one task for a while."""

    task_id: str
    owner: str
    pattern: str
    until: str
