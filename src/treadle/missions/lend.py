"""Lend the task of a step to the agent that asks by name, so that no other is given it."""

from datetime import datetime, timedelta

from treadle.errors import BlockedError
from treadle.missions import adopt
from treadle.missions.decision import Decision
from treadle.missions.next import decide, is_lent
from treadle.missions.state import Asking
from treadle.store.task_store import TaskStore
from treadle.tasks import claim

# Others may be faster; each time another task is the next one.
_TRIES = 8


def lend(asking: Asking, store: TaskStore, lease: timedelta) -> Decision:
    """Say what to do now; a task that this is about is the agent's until its lease is over."""
    for _ in range(_TRIES):
        found = decide(asking, store)
        if is_lent(asking, store, found, lease):
            return found
        task_id = found.where.task_id or ""
        adopt.adopt(store, asking.mission, [task_id.rpartition(".")[2]], asking.now)
        try:
            _take(store, task_id, asking.agent, asking.now, lease)
        except BlockedError:
            continue
    return decide(asking, store)


def _take(store: TaskStore, task_id: str, agent: str, now: datetime, lease: timedelta) -> None:
    task = store.task(task_id)
    if task and task.owner == agent and claim.is_held(task, now):
        claim.renew(store, task_id, task.claim_id or "", now, lease)
    else:
        claim.claim(store, task_id, agent, now, lease)
