"""`treadle mail list` and `read`: look at letters without waiting for anyone."""

from argparse import Namespace
from datetime import datetime

from treadle.cli import acting, letters, opened, output
from treadle.cli.place import Place
from treadle.errors import UsageError
from treadle.layout import BOXES
from treadle.mail import document, intent, look
from treadle.mail.letter import write


def list(found: Place, args: Namespace, now: datetime) -> int:
    """List letters, newest first."""
    boxes = (args.box,) if args.box else BOXES if args.all else look.OPEN
    word = intent.known(args.intent, found.extra_intents) if args.intent else None
    if args.limit < 1:
        raise UsageError("--limit must be at least 1")
    agent = acting.registered(found, args)
    with opened.fresh(found, now) as store:
        rows = look.letters(store, look.Asked(agent, boxes, args.task, word, args.limit))
        opened.renew(found, store, agent)
    return letters.show_rows(found, args, rows, "no letters")


def read(found: Place, args: Namespace, now: datetime) -> int:
    """Show a letter."""
    agent = acting.registered(found, args)
    with opened.fresh(found, now) as store:
        row = look.find(store, args.file, agent)
        letter = look.open_letter(found.layout.mail, row)
        opened.renew(found, store, agent)
    if letter.intent not in intent.every(found.extra_intents):
        output.warn(f"{row.name}: there is no intent {letter.intent}; mail.extra_intents adds one")
    told = document.whole(found.layout, row, letter)
    return output.tell(args.json, told, output.block, write(letter))
