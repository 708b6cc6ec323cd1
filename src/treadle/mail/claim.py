"""Claim letters: one claimant each, and its task with it."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from treadle.errors import NotFoundError, TreadleError
from treadle.ids import utc
from treadle.mail import address, folders, intent, look, move, place
from treadle.mail.letter import time
from treadle.mail.name import numbered
from treadle.store import letters as index
from treadle.store.letters import LetterRow, TaskTaken, Wanted
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import claim as tasks
from treadle.tasks import views
from treadle.tasks.change import Note, moved

# Work on a task that somebody else may be busy with; it has an owner of its own.
_ON_OTHERS = ("test", "review_code", "audit", "document")


class Claimed(NamedTuple):
    """A letter that is the claimant's now, and the task that came with it."""

    row: LetterRow
    task: TaskRow | None


def claim(store: Store, agent: str, text: str, now: datetime) -> Claimed:
    """Claim one letter, or say why it cannot be had."""
    row = look.find(store, text, agent)
    _check(row, agent)
    found = _take(store, agent, now, row.letter_id)
    if found is None:
        raise place.gone(row.name)
    return found


def claim_next(
    store: Store,
    agent: str,
    now: datetime,
    refresh: Callable[[], object],
    task_id: str | None = None,
) -> Claimed | None:
    """Claim the oldest letter that can be had; None when there is none, even after a `refresh`.

    Looking into the folders before every claim would cost more than the claim: once a second
    is often enough, and whenever nothing is left.
    """
    looked = not folders.is_recent(store)
    if looked and folders.is_stale(store, store.mail):
        refresh()
    while True:
        try:
            found = _take(store, agent, now, task_id=task_id)
        except NotFoundError:  # another program was faster; there may be more
            continue
        if found or looked:
            return found
        looked = True
        if folders.is_stale(store, store.mail):
            refresh()


def _take(
    store: Store,
    agent: str,
    now: datetime,
    letter_id: int | None = None,
    task_id: str | None = None,
) -> Claimed | None:
    wanted = Wanted(agent, place.inbox(agent), time(now), letter_id, task_id)
    take = _taking(store, agent, now, strict=letter_id is not None)
    found = index.claim(store, wanted, numbered, take)
    if found is None:
        return None
    try:
        row = move.follow(store, store.mail, found.before, found.after)
    except NotFoundError:
        if found.task:
            by = tasks.Holder(agent, found.task.claim_id)
            tasks.release(store, found.task.task_id, by, now)
        raise
    if found.task:
        views.write(store, store.mail, found.task.task_id)
    return Claimed(row, found.task)


def _taking(
    store: Store, agent: str, now: datetime, *, strict: bool
) -> Callable[[LetterRow, TaskRow | None], TaskTaken | None]:
    """Return what decides about a letter's task; `strict` raises why it cannot be had."""
    take = tasks.taking(store, agent, now)

    def decide(row: LetterRow, task: TaskRow | None) -> TaskTaken | None:
        if task is None or row.intent not in intent.WORK:
            return TaskTaken()
        if row.intent in _ON_OTHERS and (task.lane != "planned" or task.owner):
            return TaskTaken()
        if tasks.is_held(task, now) and task.owner == agent:
            return TaskTaken(task, None)
        try:
            after = take(task)._replace(updated_at=utc(now))
        except TreadleError:
            if strict:
                raise
            return None
        return TaskTaken(after, moved(task, after, Note(agent, f"letter {row.name}")))

    return decide


def _check(row: LetterRow, agent: str) -> None:
    """Refuse what is somebody else's, or nobody's to claim any more."""
    if row.recipient == address.ALL and row.intent not in intent.WORK:
        said = f"{row.name} is for everybody; acknowledge your copy instead"
        raise place.not_yours(row, said, "ack")
    if row.recipient not in (agent, address.ALL):
        said = f"{row.name} is addressed to {row.recipient}, not to {agent}"
        raise place.not_yours(row, said)
    if row.box != "new":
        holder = f"claimed by {row.agent}" if row.box != "logs" else "archived"
        raise place.not_yours(row, f"{row.name} is {holder}")
