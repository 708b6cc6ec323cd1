"""`treadle mail send`: turn the words of a command line into a letter."""

import os
import sys
from argparse import Namespace
from datetime import datetime
from pathlib import Path

from treadle.cli import acting, main, output
from treadle.cli.place import Place
from treadle.errors import FormatError, UsageError
from treadle.mail import address, kind, post
from treadle.mail.letter import MAX_BYTES, Letter, parse_time
from treadle.mail.post import Draft
from treadle.mail.read import decode, text
from treadle.project.root import refuse_inside_run


def send(found: Place, args: Namespace, now: datetime) -> int:
    """Write a letter."""
    headers = headers_of(args)
    if args.reply_to:
        headers = (*main.load("mail_reply").references(found, args.reply_to, now), *headers)
    return deliver(found, args, draft(args, args.to, args.intent, args.task, headers), now)


def deliver(found: Place, args: Namespace, draft: Draft, now: datetime) -> int:
    """Send what was drafted; inside a run, leave it."""
    letter = post.compose(draft, now, found.extra_intents)
    if os.environ.get("TREADLE_RUN"):
        return _leave(args, letter)
    if kind.has_effect(letter):
        # What a letter brings about takes far more of treadle than a letter does.
        sent = main.load("effects").deliver(found.layout, letter, now)
    else:
        sent = post.post(found.layout.mail, letter)
    output.warn(*sent.said)
    shown = found.layout.shown(found.layout.mail.new / sent.name)
    told = {"file": shown, "message_id": sent.letter.message_id}
    return output.say(args.json, told, f"sent {shown}")


def _leave(args: Namespace, letter: Letter) -> int:
    """Inside a run: leave the letter in the step's outbox, from where it is delivered."""
    outbox = os.environ.get("TREADLE_LETTERS")
    if not outbox:
        refuse_inside_run(os.environ)
    folder = Path(outbox or "")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / post.drop(folder, letter)
    told = {"file": str(path), "message_id": letter.message_id}
    return output.say(args.json, told, f"left {path}; it is delivered when the step is committed")


def draft(
    args: Namespace,
    to: str,
    word: str,
    task_id: str | None,
    headers: tuple[tuple[str, str | None], ...],
) -> Draft:
    """Return what the words of a command line want to say."""
    return Draft(
        sender=acting.who(args) or address.HUMAN,
        to=to,
        intent=word,
        body=_body(args),
        task_id=task_id,
        status=args.status,
        headers=headers,
        created_at=parse_time(args.created_at) if args.created_at else None,
    )


def headers_of(args: Namespace) -> tuple[tuple[str, str | None], ...]:
    """Return the optional headers that flags ask for."""
    for moment in (args.due_at, args.expires_at):
        if moment:
            parse_time(moment)
    return (
        ("priority", args.priority),
        ("due_at", args.due_at),
        ("expires_at", args.expires_at),
        ("ack_required", "true" if args.ack_required else None),
    )


def _body(args: Namespace) -> str:
    """Return the markdown that flags, a file or stdin give."""
    parts = [f"## Summary\n{args.summary}"] if args.summary else []
    if args.body:
        parts.append(_markdown(args.body).strip("\n"))
    if args.ac:
        items = "\n".join(f"- {item}" for item in args.ac)
        parts.append(f"## Acceptance Criteria\n{items}")
    return "\n\n".join(parts)


def _markdown(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise UsageError(f"stdin has more than {MAX_BYTES} bytes")
            return decode(data, "stdin")
        return text(Path(name))
    except FileNotFoundError as error:
        raise UsageError(f"--body {name}: there is no such file") from error
    except FormatError as error:
        raise UsageError(f"--body {name}: {error.message}") from error
