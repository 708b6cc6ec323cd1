"""`treadle mail reply`, and letters that refer to another one."""

from argparse import Namespace
from datetime import datetime

from treadle.cli import acting, opened
from treadle.cli.mail_send import deliver, draft, headers_of
from treadle.cli.place import Place
from treadle.mail import entry, intent, look

Headers = tuple[tuple[str, str | None], ...]


def reply(found: Place, args: Namespace, now: datetime) -> int:
    """Answer a letter."""
    with opened.fresh(found, now) as store:
        original = look.find(store, args.file, acting.who(args))
    headers = (*references(found, args.file, now), *headers_of(args))
    word = args.intent or intent.reply(original.intent)
    return deliver(found, args, draft(args, original.sender, word, original.task_id, headers), now)


def references(found: Place, file: str, now: datetime) -> Headers:
    """Return the headers that tie an answer to a letter."""
    with opened.fresh(found, now) as store:
        original = look.find(store, file)
    letter = look.open_letter(found.layout.mail, original)
    return entry.references(original, letter.header("thread_id"))
