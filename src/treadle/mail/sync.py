"""Bring the index up to what lies in the folders: files that others wrote, moved or removed."""

import time
from datetime import datetime

from treadle.layout import NEW_MESSAGES, Layout, MailLayout
from treadle.mail import effect, folders, kind, place, take_in
from treadle.mail.entry import row
from treadle.mail.letter import Letter
from treadle.store import letters as index
from treadle.store.letters import FolderRow
from treadle.store.store import Store
from treadle.tasks import takeover


def refresh(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Take in what changed, and make the effects of letters; return what went wrong."""
    stale, marks = folders.stale(store, mail)
    said = _tasks(store, mail, now) if folders.TASKS in stale else []
    if stale:
        said += take_in.take_in(store, mail, stale, marks)
    return said + settle(store, mail, now)


def fresh(layout: Layout, now: datetime) -> tuple[Store, list[str]]:
    """Open the store with every letter in it, and say what was wrong with some."""
    store = Store.open(layout)
    return store, refresh(store, layout.mail, now)


def rebuild(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Read every folder again, whatever its time says."""
    index.mark(store, [], list(index.folders(store)))
    return refresh(store, mail, now)


def settle(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Make the effects that letters still wait for."""
    said = []
    for pending in index.pending(store):
        said += effect.make(store, mail, pending, now)
    return said


def see(store: Store, mail: MailLayout, name: str, letter: Letter, now: datetime) -> list[str]:
    """Take in one letter that was just delivered, with its effect."""
    new = row(letter, place.NEW, name, pending=kind.has_effect(letter))
    index.insert(store, [new])
    known = index.at(store, NEW_MESSAGES, name)
    return effect.make(store, mail, known, now) if known and known.pending else []


def _tasks(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Take in what others wrote about tasks; writing it down again index the folder too."""
    said = takeover.take_over_all(store, mail, now)
    index.mark(store, [FolderRow(folders.TASKS, folders.dated(mail.tasks), time.time_ns())])
    return said
