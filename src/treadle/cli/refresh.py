"""Take in letters that others wrote: loaded only when there are any."""

from datetime import datetime

from treadle.cli import main
from treadle.layout import Layout, MailLayout
from treadle.mail import folders
from treadle.mail.take_in import take_in
from treadle.store import letters as index
from treadle.store.store import Store


def fresh(layout: Layout, now: datetime) -> tuple[Store, list[str]]:
    """Open the store with every letter in it, and say what was wrong with some."""
    store = Store.open(layout)
    return store, refresh(store, layout.mail, now)


def refresh(store: Store, mail: MailLayout, now: datetime) -> list[str]:
    """Take in what changed; what letters bring about takes far more of treadle than letters do."""
    stale, marks = folders.stale(store, mail)
    if folders.TASKS in stale:
        told: list[str] = main.load("effects").refresh(store, mail, now)
        return told
    said = take_in(store, mail, stale, marks) if stale else []
    if index.pending(store):
        said += main.load("effects").settle(store, mail, now)
    return said
