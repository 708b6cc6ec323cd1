"""The store as it looks to whoever acts in the mail."""

import os
from datetime import datetime

from treadle.cli import main, output
from treadle.cli.place import Place
from treadle.mail import folders
from treadle.store import letters as index
from treadle.store.store import Reader
from treadle.tasks import leases


def fresh(found: Place, now: datetime) -> Reader:
    """Open the store with every letter in it; inside a run, as it is."""
    reader = Reader.open(found.layout)
    mail = found.layout.mail
    if os.environ.get("TREADLE_RUN") or not mail.root.is_dir():
        return reader
    if index.wait_elsewhere(reader):
        main.load("fleet_letters").bring()
    if not folders.is_stale(reader, mail):
        return reader
    reader.close()
    store: Reader
    store, said = main.load("refresh").fresh(found.layout, now)
    output.warn(*said)
    return store


def renew(found: Place, store: Reader, agent: str | None) -> None:
    """Any command by a task's owner keeps its lease alive."""
    if agent and not os.environ.get("TREADLE_RUN") and leases.due(store, agent, store.now()):
        main.load("effects").renew(found.layout, agent)
