"""Hold a task: a claim lasts as long as its lease, and an expired one can be taken over."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from treadle.ids import utc
from treadle.store.store import Reader, Store
from treadle.store.tasks import TaskRow
from treadle.tasks import lanes, leases, refusal
from treadle.tasks.change import Note, change
from treadle.tasks.owner import HUMAN as HUMAN
from treadle.tasks.owner import TREADLE as TREADLE
from treadle.tasks.owner import owner_id as owner_id

LEASE = leases.LEASE


class Holder(NamedTuple):
    """Who acts on a task, and by which claim; without one, whoever bears the name may act."""

    owner: str
    claim_id: str | None = None


def claim(
    store: Store, task_id: str, owner: str, now: datetime, lease: timedelta = LEASE
) -> TaskRow:
    """Take a task that nobody holds; of many who try at once, one gets it."""
    owner = owner_id(owner)
    take = taking(store, owner, now, lease)
    return change(store, task_id, take, Note(owner), now).after


def taking(
    store: Reader, owner: str, now: datetime, lease: timedelta = LEASE
) -> Callable[[TaskRow], TaskRow]:
    """Return what turns a task that nobody holds into the owner's, or raises why not."""

    def take(task: TaskRow) -> TaskRow:
        if task.lane not in ("planned", *lanes.HELD):
            raise refusal.wrong_lane(task, "claimed")
        if is_held(task, now):
            raise refusal.held(task)
        check_dependencies(store, task)
        return given(task, "claimed", new_claim(owner, now), now, lease)

    return take


def release(store: Store, task_id: str, by: Holder, now: datetime) -> TaskRow:
    """Give a task back to be planned again."""
    by = acting(by)

    def free(task: TaskRow) -> TaskRow:
        if task.lane not in lanes.HELD:
            raise refusal.wrong_lane(task, "planned")
        check_holder(task, by, now)
        return freed(task, "planned")

    return change(store, task_id, free, Note(by.owner), now).after


def renew(
    store: Store, task_id: str, claim_id: str, now: datetime, lease: timedelta = LEASE
) -> bool:
    """Prolong a claim that has used half its lease; False when it is lost."""
    while True:
        task = store.task(task_id)
        if task is None or task.claim_id != claim_id:
            return False
        if task.lease_until and task.lease_until > utc(now + lease / 2):
            return True
        if store.swap_task(task, task._replace(lease_until=utc(now + lease))):
            return True


def renew_all(store: Store, owner: str, now: datetime) -> None:
    """Prolong all claims of an owner that shows signs of life; a run renews its own."""
    for task in leases.due(store, owner, now):
        renew(store, task.task_id, task.claim_id or "", now)


def is_held(task: TaskRow, now: datetime) -> bool:
    """Tell whether someone's lease on the task still runs."""
    return task.claim_id is not None and (task.lease_until or "") > utc(now)


def is_holder(task: TaskRow, by: Holder) -> bool:
    """Tell whether the task's claim is this one's; a claim id says more than a name."""
    if by.claim_id is not None:
        return by.claim_id == task.claim_id
    return task.claim_id is not None and by.owner == task.owner


def check_holder(task: TaskRow, by: Holder, now: datetime) -> None:
    """Refuse a lost claim, and anyone else while the holder's lease runs."""
    if is_holder(task, by):
        return
    if by.claim_id is not None:
        raise refusal.not_yours(task, by.owner)
    if is_held(task, now):
        raise refusal.held(task)


def check_dependencies(store: Reader, task: TaskRow) -> None:
    """Refuse a task that waits for others."""
    needed = [other for other in store.dependencies(task.task_id) if other.lane != "done"]
    if needed:
        raise refusal.waiting(task, needed)


def new_claim(owner: str, now: datetime) -> Holder:
    """Return a claim that no earlier one of this owner equals, even if the clock went back."""
    return Holder(owner, f"{owner}-{now.astimezone(UTC):%Y%m%d%H%M%S%f}-{os.urandom(3).hex()}")


def given(
    task: TaskRow, lane: lanes.Lane, to: Holder, now: datetime, lease: timedelta = LEASE
) -> TaskRow:
    """Return the task in a held lane, with a fresh lease."""
    until = utc(now + lease)
    return task._replace(lane=lane, owner=to.owner, claim_id=to.claim_id, lease_until=until)


def freed(task: TaskRow, lane: str) -> TaskRow:
    """Return the task without a claim; who worked on it stays known unless it is planned anew."""
    owner = None if lane == "planned" else task.owner
    return task._replace(lane=lane, owner=owner, claim_id=None, lease_until=None)


def acting(by: Holder) -> Holder:
    """Return the holder with its name as addresses are written."""
    return by._replace(owner=owner_id(by.owner))
