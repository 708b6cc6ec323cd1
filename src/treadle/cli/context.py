"""What commands about tasks and letters share: who acts, the store with every letter."""

import os
from argparse import Namespace
from datetime import datetime

from treadle.cli import main, output
from treadle.errors import BlockedError, UsageError
from treadle.ids import HUMAN, TREADLE, acting_agent
from treadle.mail import effect, index, letter
from treadle.missions import adopt
from treadle.project import Place, find_place, here
from treadle.store import letters as table
from treadle.store.store import Reader, Store
from treadle.tasks import claim

# What programs say that do not know who they are, and treadle's own name.
_NOBODY = ("unknown", "none", "null", "undefined", "nobody", "anonymous", TREADLE)


def find_project() -> Place:
    """Return the project around the current folder, for commands that must be quick."""
    return find_place(here(), os.environ)


def who(args: Namespace) -> str | None:
    """Return who acts, if anyone said so."""
    name = os.environ.get("TREADLE_AGENT") or None if args.who is None else args.who
    agent = None if name is None else acting_agent(name)
    if agent in _NOBODY:
        raise UsageError(f"{agent} is nobody's name; say who you are", code="agent_id_invalid")
    return agent


def reader(found: Place, args: Namespace) -> str | None:
    """Return who reads, if anyone said so; a name that looks like another one's is told."""
    agent, known = who(args), letter.registered_agents(found.layout.mail)
    if agent:
        output.warn(*letter.typos([agent], known))
    return agent


def writer(args: Namespace) -> str:
    """Return who writes: whoever does not say is the human, and inside a run its agent."""
    run_id, agent = os.environ.get("TREADLE_RUN"), who(args)
    if run_id and agent == HUMAN:
        raise BlockedError(
            f"inside run {run_id} nobody writes as {HUMAN}; leave out --from or --as",
            code="inside_run",
        )
    return agent or (TREADLE if run_id else HUMAN)


def required(found: Place, args: Namespace) -> str:
    """Return who acts; the first time, the agent gets its folders."""
    agent = who(args)
    if agent:
        letter.register_agent(found.layout.mail, agent)
    return agent or HUMAN


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


def follow_missions(found: Place) -> None:
    """Let the store know what missions' files say: a new name, tasks that are over."""
    if not os.environ.get("TREADLE_RUN") and (behind := adopt.behind(found.layout)):
        main.call("report.catch_up", found.layout, behind)


def renew(found: Place, store: Reader, agent: str | None) -> None:
    """Any command by a task's owner keeps its lease alive."""
    if agent and not os.environ.get("TREADLE_RUN") and claim.due_leases(store, agent, store.now()):
        with Store.open(found.layout) as writer:
            claim.renew_all(writer, agent, writer.now())
