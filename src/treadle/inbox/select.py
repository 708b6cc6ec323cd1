"""Decide which routine carries a message out, and remember what decided."""

from typing import NamedTuple

from treadle.config.schema import Config
from treadle.inbox import router, routines
from treadle.inbox.message import Message
from treadle.inbox.router import Choice, External, Fallback
from treadle.inbox.routines import Routine
from treadle.inbox.specs import Spec
from treadle.layout import Layout


class Selected(NamedTuple):
    """A routine that exists, and how it was found."""

    routine: Routine
    choice: Choice


def select(
    layout: Layout, config: Config, message: Message, spec: Spec | None, external: External | None
) -> Selected:
    """Return the message's routine; NotFoundError if it names one that is not there."""
    if message.routine:
        found = routines.find(layout, message.routine, config.notebook_support)
        choice = Choice(message.routine, "message", "the message names it")
        return Selected(found, choice)
    known = routines.discover(layout, config.notebook_support)
    fallback = Fallback(spec.routine if spec else None, config.default_routine)
    choice = router.choose(spec.text if spec else message.text, known, fallback, external)
    return Selected(known[choice.routine], choice)
