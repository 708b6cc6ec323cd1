"""`treadle mail claim`, `ack` and `archive`: move letters."""

from argparse import Namespace
from datetime import datetime, timedelta
from functools import partial

from treadle.cli import acting, letters, main, output
from treadle.cli.place import Place
from treadle.errors import UsageError
from treadle.layout import MailLayout
from treadle.mail import claim as claims
from treadle.mail import document, folders, handle, look
from treadle.mail import place as places
from treadle.store.store import Store
from treadle.tasks import claim as tasks

_CENTURY = 36_500.0


def claim(found: Place, args: Namespace, now: datetime) -> int:
    """Take a letter, and its task with it."""
    agent = acting.required(found, args)
    mail = found.layout.mail
    with Store.open(found.layout) as store:
        now = store.now()
        if args.file:
            _refresh(store, mail, now)
            taken: claims.Claimed | None = claims.claim(store, agent, args.file, now)
        else:
            look_again = partial(_refresh, store, mail, now)
            taken = claims.claim_next(store, agent, now, look_again, args.task)
        tasks.renew_all(store, agent, now)
    if taken is None:
        told = {"file": None, "claim_id": None}
        return output.say(args.json, told, f"no letter waits for {agent}")
    shown = found.layout.shown(places.path(mail, taken.row))
    whole = document.brief(found.layout, taken.row) | {"claim_id": taken.row.claim_id}
    return output.say(args.json, whole, f"{shown} is {agent}'s")


def ack(found: Place, args: Namespace, now: datetime) -> int:
    """Say that a letter is taken care of."""
    agent = acting.required(found, args)
    with Store.open(found.layout) as store:
        _refresh(store, found.layout.mail, now)
        row = look.find(store, args.file, agent)
        row = handle.acknowledge(store, found.layout.mail, row, agent)
        tasks.renew_all(store, agent, store.now())
    told = document.brief(found.layout, row)
    return output.say(args.json, told, f"acknowledged: {told['file']}")


def archive(found: Place, args: Namespace, now: datetime) -> int:
    """Put letters into the LOGS."""
    if sum(value is not None for value in (args.file, args.task, args.older_than)) != 1:
        raise UsageError("say which: a FILE, --task TASK or --older-than DAYS")
    mail = found.layout.mail
    with Store.open(found.layout) as store:
        _refresh(store, mail, now)
        if args.task:
            rows = handle.archive_task(store, mail, args.task)
        elif args.file:
            rows = [handle.archive(store, mail, look.find(store, args.file))]
        else:
            age = timedelta(days=min(args.older_than, _CENTURY))
            rows = handle.archive_older(store, mail, age, now)
    return letters.show_rows(found, args, rows, "nothing to archive")


def _refresh(store: Store, mail: MailLayout, now: datetime) -> None:
    """Take in what others wrote, if there is anything, and tell what is no letter."""
    if folders.is_stale(store, mail):
        output.warn(*main.load("refresh").refresh(store, mail, now))
