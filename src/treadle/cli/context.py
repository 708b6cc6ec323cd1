"""What commands about tasks and letters share: who acts, the store with every letter."""

import os
from argparse import Namespace
from datetime import datetime

from treadle.cli import main, output
from treadle.ids import HUMAN, acting_agent
from treadle.mail import effect, index, letter
from treadle.project import Place, find_place, here
from treadle.store import letters as table
from treadle.store.store import Reader, Store
from treadle.tasks import claim


def find_project() -> Place:
    """Return the project around the current folder, for commands that must be quick."""
    return find_place(here(), os.environ)


def who(args: Namespace) -> str | None:
    """Return who acts, if anyone said so."""
    name = args.who or os.environ.get("TREADLE_AGENT")
    return acting_agent(name) if name else None


def registered(found: Place, args: Namespace) -> str | None:
    """Return who acts; the first time, the agent gets its folders."""
    agent = who(args)
    if agent and not os.environ.get("TREADLE_RUN"):
        letter.register_agent(found.layout.mail, agent)
    return agent


def required(found: Place, args: Namespace) -> str:
    """Return who acts; whoever does not say is the human."""
    return registered(found, args) or HUMAN


def fresh(found: Place, now: datetime) -> Reader:
    """Open the store with every letter in it; inside a run, as it is."""
    reader = Reader.open(found.layout)
    mail = found.layout.mail
    if os.environ.get("TREADLE_RUN") or not mail.root.is_dir():
        return reader
    if table.wait_elsewhere(reader):
        main.call("run.bring_letters")
    if not index.is_stale(reader, mail):
        return reader
    reader.close()
    store, said = effect.fresh(found.layout, now)
    output.warn(*said)
    return store


def renew(found: Place, store: Reader, agent: str | None) -> None:
    """Any command by a task's owner keeps its lease alive."""
    if agent and not os.environ.get("TREADLE_RUN") and claim.due_leases(store, agent, store.now()):
        with Store.open(found.layout) as writer:
            claim.renew_all(writer, agent, writer.now())
