"""`treadle mail`: send, list, read, claim, answer, acknowledge and search letters."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from treadle.cli import letters, place
from treadle.cli.place import Place
from treadle.errors import ExitCode, UsageError
from treadle.mail import address, handle, intent, look, search, send, sync, watch
from treadle.mail import claim as claims
from treadle.mail import place as places
from treadle.mail.letter import parse_time, write
from treadle.mail.send import Draft
from treadle.project.root import refuse_inside_run
from treadle.store import mail_words
from treadle.store.reader import Reader
from treadle.store.writer import Store
from treadle.tasks import claim as tasks


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    sent = _written(actions.add_parser("send", help="Send a letter"))
    sent.add_argument("--from", dest="who", metavar="AGENT", help="Who writes")
    sent.add_argument("--to", required=True, metavar="AGENT", help="Who is written to, or all")
    sent.add_argument("--intent", required=True, help="What the letter is for")
    sent.add_argument("--task", metavar="TASK", help="The task it is about")
    sent.add_argument("--reply-to", metavar="FILE", help="The letter it answers")
    listed = _acting(actions.add_parser("list", help="List letters, newest first"))
    listed.add_argument("--box", choices=look.BOXES, help="Only letters there")
    listed.add_argument("--all", action="store_true", help="Archived ones too")
    listed.add_argument("--task", metavar="TASK", help="Only letters about this task")
    listed.add_argument("--intent", help="Only letters for this")
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="At most N of them")
    _named(_acting(actions.add_parser("read", help="Show a letter")))
    claimed = _acting(actions.add_parser("claim", help="Take a letter, and its task with it"))
    claimed.add_argument("file", nargs="?", metavar="FILE", help="Which; else the oldest")
    claimed.add_argument("--task", metavar="TASK", help="The oldest about this task")
    replied = _written(_named(_acting(actions.add_parser("reply", help="Answer a letter"))))
    replied.add_argument("--intent", help="What the answer is for")
    _named(_acting(actions.add_parser("ack", help="Say that a letter is taken care of")))
    kept = actions.add_parser("archive", help="Put letters into the LOGS")
    kept.add_argument("file", nargs="?", metavar="FILE", help="Which")
    kept.add_argument("--task", metavar="TASK", help="All letters about this task")
    kept.add_argument("--older-than", type=float, metavar="DAYS", help="Sort old ones by month")
    watched = _acting(actions.add_parser("watch", help="Wait until a letter arrives"))
    watched.add_argument("--timeout", type=float, metavar="SECONDS", help="Not for longer")
    searched = actions.add_parser("search", help="Find letters by their words")
    searched.add_argument("words", nargs="+", metavar="WORD", help="What they must contain")
    searched.add_argument("--limit", type=int, default=50, metavar="N", help="At most N of them")
    actions.add_parser("reindex", help="Read every letter again")


def run(args: Namespace) -> int:
    """Open the project, do one thing, say what came of it."""
    found = place.find(os.environ)
    inside = bool(os.environ.get("TREADLE_RUN"))
    if inside and args.action not in _INSIDE:
        refuse_inside_run(os.environ)
    code: int = _ACTIONS[args.action](found, args, datetime.now(UTC))
    return code


def _acting(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("--as", dest="who", metavar="AGENT", help="Who acts; else TREADLE_AGENT")
    return parser


def _named(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("file", metavar="FILE", help="Name, path or message id of the letter")
    return parser


def _written(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("--body", metavar="FILE", help="Markdown to send; - reads it from stdin")
    parser.add_argument("--summary", metavar="TEXT", help="What it is about, in a line")
    parser.add_argument("--ac", action="append", default=[], help="Acceptance criterion")
    parser.add_argument("--status", help="new, in_progress, completed, blocked or failed")
    parser.add_argument("--priority", help="How urgent it is")
    parser.add_argument("--due-at", metavar="TIME", help="When it should be done")
    parser.add_argument("--expires-at", metavar="TIME", help="When nobody need claim it any more")
    parser.add_argument("--ack-required", action="store_true", help="Ask for an acknowledgement")
    parser.add_argument("--created-at", metavar="TIME", help="When it was written; else now")
    return parser


def _send(found: Place, args: Namespace, now: datetime) -> int:
    headers = letters.headers(args)
    if args.reply_to:
        with _open(found, now) as store:
            headers = (*letters.references(found, store, args.reply_to), *headers)
    draft = _draft(args, args.to, args.intent, args.task, headers)
    return _deliver(found, args, draft, now)


def _reply(found: Place, args: Namespace, now: datetime) -> int:
    with _open(found, now) as store:
        original = look.find(store, args.file, _who(args))
        headers = (*letters.references(found, store, args.file), *letters.headers(args))
    word = args.intent or intent.reply(original.intent)
    draft = _draft(args, original.sender, word, original.task_id, headers)
    return _deliver(found, args, draft, now)


def _deliver(found: Place, args: Namespace, draft: Draft, now: datetime) -> int:
    if os.environ.get("TREADLE_RUN"):
        return _leave(found, args, draft, now)
    sent = send.send(found.layout, draft, now, found.extra_intents)
    letters.warn(sent.said)
    path = found.layout.mail.new / sent.name
    document = {"file": letters.shown(found, path), "message_id": sent.letter.message_id}
    return letters.say(args, document, f"sent {document['file']}")


def _leave(found: Place, args: Namespace, draft: Draft, now: datetime) -> int:
    """Inside a run: leave the letter in the step's outbox, from where it is delivered."""
    outbox = os.environ.get("TREADLE_LETTERS")
    if not outbox:
        refuse_inside_run(os.environ)
    letter = send.compose(draft, now, found.extra_intents)
    folder = Path(outbox or "")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / send.drop(folder, letter)
    document = {"file": str(path), "message_id": letter.message_id}
    return letters.say(args, document, f"left {path}; it is delivered when the step is committed")


def _list(found: Place, args: Namespace, now: datetime) -> int:
    boxes = (args.box,) if args.box else look.BOXES if args.all else look.OPEN
    word = intent.known(args.intent, found.extra_intents) if args.intent else None
    if args.limit < 1:
        raise UsageError("--limit must be at least 1")
    agent = _registered(found, args)
    with _open(found, now) as store:
        rows = look.letters(store, look.Asked(agent, boxes, args.task, word, args.limit))
        _renew(found, store, agent, now)
    return letters.show_rows(found, args, rows, "no letters")


def _read(found: Place, args: Namespace, now: datetime) -> int:
    agent = _registered(found, args)
    with _open(found, now) as store:
        row = look.find(store, args.file, agent)
        letter = look.open_letter(found.layout.mail, row)
        _renew(found, store, agent, now)
    document = letters.document(found, row) | {"headers": dict(letter.extra), "body": letter.body}
    return letters.say(args, document, write(letter).rstrip("\n"))


def _claim(found: Place, args: Namespace, now: datetime) -> int:
    agent = _required(found, args)
    mail = found.layout.mail
    with Store.open(found.layout) as store:
        if args.file:
            letters.warn(sync.refresh(store, mail, now))
            taken: claims.Claimed | None = claims.claim(store, mail, agent, args.file, now)
        else:
            taken = claims.claim_next(store, mail, agent, now, args.task)
        tasks.renew_all(store, agent, now)
    if taken is None:
        return letters.say(args, {"file": None, "claim_id": None}, f"no letter waits for {agent}")
    shown = letters.shown(found, places.path(mail, taken.row))
    document = letters.document(found, taken.row) | {"claim_id": taken.row.claim_id}
    return letters.say(args, document, f"{shown} is {agent}'s")


def _ack(found: Place, args: Namespace, now: datetime) -> int:
    agent = _required(found, args)
    with Store.open(found.layout) as store:
        letters.warn(sync.refresh(store, found.layout.mail, now))
        row = look.find(store, args.file, agent)
        row = handle.acknowledge(store, found.layout.mail, row, agent)
        tasks.renew_all(store, agent, now)
    document = letters.document(found, row)
    return letters.say(args, document, f"acknowledged: {document['file']}")


def _archive(found: Place, args: Namespace, now: datetime) -> int:
    if sum(value is not None for value in (args.file, args.task, args.older_than)) != 1:
        raise UsageError("say which: a FILE, --task TASK or --older-than DAYS")
    mail = found.layout.mail
    with Store.open(found.layout) as store:
        letters.warn(sync.refresh(store, mail, now))
        if args.task:
            rows = handle.archive_task(store, mail, args.task)
        elif args.file:
            rows = [handle.archive(store, mail, look.find(store, args.file))]
        else:
            rows = handle.archive_older(store, mail, timedelta(days=args.older_than), now)
    return letters.show_rows(found, args, rows, "nothing to archive")


def _watch(found: Place, args: Namespace, now: datetime) -> int:
    agent = _registered(found, args)
    rows = watch.watch(found.layout, agent, args.timeout, lambda: datetime.now(UTC))
    letters.show_rows(found, args, rows, "no letter came")
    return ExitCode.DONE if rows else ExitCode.FAILED


def _search(found: Place, args: Namespace, now: datetime) -> int:
    with _open(found, now, searching=True) as store:
        rows = search.search(store, found.layout.mail, args.words, args.limit)
    return letters.show_rows(found, args, rows, "no letter has these words")


def _reindex(found: Place, args: Namespace, now: datetime) -> int:
    with Store.open(found.layout) as store:
        said = sync.rebuild(store, found.layout.mail, now)
        mail_words.forget(store)
        count = sum(1 for _ in sync.letters(found.layout.mail))
    letters.warn(said)
    document = {"letters": count, "set_aside": said}
    return letters.say(args, document, f"{count} letters read")


_ACTIONS: dict[str, Callable[[Place, Namespace, datetime], int]] = {
    "send": _send,
    "list": _list,
    "read": _read,
    "claim": _claim,
    "reply": _reply,
    "ack": _ack,
    "archive": _archive,
    "watch": _watch,
    "search": _search,
    "reindex": _reindex,
}
_INSIDE = ("send", "reply", "list", "read", "search")


def _open(found: Place, now: datetime, *, searching: bool = False) -> Reader:
    """Open the store with every letter in it; inside a run, as it is."""
    inside = bool(os.environ.get("TREADLE_RUN"))
    store, said = look.fresh(found.layout, now, writable=not inside)
    letters.warn(said)
    if searching and not inside and not isinstance(store, Store):
        store.close()
        return Store.open(found.layout)
    return store


def _who(args: Namespace) -> str | None:
    name = args.who or os.environ.get("TREADLE_AGENT")
    return address.sender(name) if name else None


def _registered(found: Place, args: Namespace) -> str | None:
    """Return who acts; the first time, the agent gets its folders."""
    agent = _who(args)
    if agent and not os.environ.get("TREADLE_RUN"):
        places.register(found.layout.mail, agent)
    return agent


def _required(found: Place, args: Namespace) -> str:
    return _registered(found, args) or address.HUMAN


def _renew(found: Place, store: Reader, agent: str | None, now: datetime) -> None:
    """Any command by a task's owner keeps its lease alive."""
    if agent is None or os.environ.get("TREADLE_RUN") or not tasks.due(store, agent, now):
        return
    with Store.open(found.layout) as writing:
        tasks.renew_all(writing, agent, now)


def _draft(
    args: Namespace,
    to: str,
    word: str,
    task_id: str | None,
    headers: tuple[tuple[str, str | None], ...],
) -> Draft:
    return Draft(
        sender=_who(args) or address.HUMAN,
        to=to,
        intent=word,
        body=letters.body(args),
        task_id=task_id,
        status=args.status,
        headers=headers,
        created_at=parse_time(args.created_at) if args.created_at else None,
    )
