"""Who acts in the mail."""

import os
from argparse import Namespace

from treadle.cli.place import Place
from treadle.mail import address, agents


def who(args: Namespace) -> str | None:
    """Return who acts, if anyone said so."""
    name = args.who or os.environ.get("TREADLE_AGENT")
    return address.sender(name) if name else None


def registered(found: Place, args: Namespace) -> str | None:
    """Return who acts; the first time, the agent gets its folders."""
    agent = who(args)
    if agent and not os.environ.get("TREADLE_RUN"):
        agents.register(found.layout.mail, agent)
    return agent


def required(found: Place, args: Namespace) -> str:
    """Return who acts; whoever does not say is the human."""
    return registered(found, args) or address.HUMAN
