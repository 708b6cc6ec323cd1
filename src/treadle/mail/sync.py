"""Bring the index up to what lies in the folders: files that others wrote, moved or removed."""

import time
from datetime import datetime

from treadle.layout import NEW_MESSAGES, Layout, MailLayout
from treadle.mail import effect, folders, kind, place, take_in
from treadle.mail.entry import row
from treadle.mail.letter import Letter
from treadle.store import mail as index
from treadle.store import mail_changes as changes
from treadle.store.rows.letter import FolderRow
from treadle.store.task_store import TaskStore
from treadle.tasks import takeover


def refresh(store: TaskStore, mail: MailLayout, now: datetime) -> list[str]:
    """Take in what changed, and make the effects of letters; return what went wrong."""
    stale, marks = folders.stale(store, mail)
    said = _tasks(store, mail, now) if folders.TASKS in stale else []
    if stale:
        said += take_in.take_in(store, mail, stale, marks)
    return said + settle(store, mail, now)


def fresh(layout: Layout, now: datetime) -> tuple[TaskStore, list[str]]:
    """Open the store with every letter in it, and say what was wrong with some."""
    store = TaskStore.open(layout)
    return store, refresh(store, layout.mail, now)


def rebuild(store: TaskStore, mail: MailLayout, now: datetime) -> list[str]:
    """Read every folder again, whatever its time says."""
    changes.mark(store, [], list(index.folders(store)))
    return refresh(store, mail, now)


def settle(store: TaskStore, mail: MailLayout, now: datetime) -> list[str]:
    """Make the effects that letters still wait for."""
    said = []
    for pending in index.pending(store):
        said += effect.make(store, mail, pending, now)
    return said


def see(store: TaskStore, mail: MailLayout, name: str, letter: Letter, now: datetime) -> list[str]:
    """Take in one letter that was just delivered, with its effect."""
    new = row(letter, place.NEW, name, pending=kind.has_effect(letter))
    changes.insert(store, [new])
    known = index.at(store, NEW_MESSAGES, name)
    return effect.make(store, mail, known, now) if known and known.pending else []


def _tasks(store: TaskStore, mail: MailLayout, now: datetime) -> list[str]:
    """Take in what others wrote about tasks; writing it down again changes the folder too."""
    said = takeover.take_over_all(store, mail, now)
    changes.mark(store, [FolderRow(folders.TASKS, folders.dated(mail.tasks), time.time_ns())])
    return said
