"""Who acts in the mail, and the store as it looks to them."""

import os
from argparse import Namespace
from datetime import datetime

from treadle.cli import letters, main
from treadle.cli.place import Place
from treadle.mail import address, folders
from treadle.mail import place as places
from treadle.store.task_reader import TaskReader
from treadle.tasks import leases


def opened(found: Place, now: datetime) -> TaskReader:
    """Open the store with every letter in it; inside a run, as it is."""
    reader = TaskReader.open(found.layout)
    mail = found.layout.mail
    if os.environ.get("TREADLE_RUN") or not mail.root.is_dir():
        return reader
    if not folders.is_stale(reader, mail):
        return reader
    reader.close()
    store: TaskReader
    store, said = main.load("refresh").fresh(found.layout, now)
    letters.warn(said)
    return store


def who(args: Namespace) -> str | None:
    """Return who acts, if anyone said so."""
    name = args.who or os.environ.get("TREADLE_AGENT")
    return address.sender(name) if name else None


def registered(found: Place, args: Namespace) -> str | None:
    """Return who acts; the first time, the agent gets its folders."""
    agent = who(args)
    if agent and not os.environ.get("TREADLE_RUN"):
        places.register(found.layout.mail, agent)
    return agent


def required(found: Place, args: Namespace) -> str:
    """Return who acts; whoever does not say is the human."""
    return registered(found, args) or address.HUMAN


def renew(found: Place, store: TaskReader, agent: str | None) -> None:
    """Any command by a task's owner keeps its lease alive."""
    if agent and not os.environ.get("TREADLE_RUN") and leases.due(store, agent, store.now()):
        main.load("refresh").renew(found.layout, agent)
