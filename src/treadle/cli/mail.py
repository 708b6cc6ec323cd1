"""`treadle mail`: send, read, claim, answer and archive letters; `treadle desk`: what waits."""

import os
import sys
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from treadle.cli import context, output
from treadle.errors import ExitCode, FormatError, UsageError
from treadle.ids import HUMAN
from treadle.layout import BOXES
from treadle.mail import claim, effect, find, index
from treadle.mail import index as places
from treadle.mail.letter import (
    INTENTS,
    MAX_BYTES,
    Draft,
    Letter,
    compose,
    decode,
    drop,
    every_intent,
    has_effect,
    known_intent,
    parse_time,
    post,
    read_text,
    reply_intent,
    write,
)
from treadle.project import Place, refuse_inside_run
from treadle.store.letters import LetterRow
from treadle.store.questions import QuestionRow
from treadle.store.store import Store
from treadle.tasks import claim as tasks
from treadle.tasks import questions
from treadle.text import plural

Headers = tuple[tuple[str, str | None], ...]

_CENTURY = 36_500.0
_INTENTS = ", ".join(INTENTS)


def _now() -> datetime:
    return datetime.now(UTC)


def send_letter(args: Namespace) -> int:
    found, headers = context.find_project(), _headers(args)
    if args.reply_to:
        headers = (*_references(found, args.reply_to), *headers)
    return _deliver(found, args, _draft(args, args.to, args.intent, args.task, headers))


def reply_to_letter(args: Namespace) -> int:
    found = context.find_project()
    with context.fresh(found, _now()) as store:
        original = find.find_letter(store, args.file, context.who(args))
    headers = (*_references(found, args.file), *_headers(args))
    word = args.intent or reply_intent(original.intent)
    return _deliver(found, args, _draft(args, original.sender, word, original.task_id, headers))


def _references(found: Place, file: str) -> Headers:
    """Return the headers that tie an answer to a letter."""
    with context.fresh(found, _now()) as store:
        original = find.find_letter(store, file)
    letter = find.open_letter(found.layout.mail, original)
    return index.references(original, letter.header("thread_id"))


def _deliver(found: Place, args: Namespace, draft: Draft) -> int:
    """Send what was drafted; inside a run, leave it."""
    letter = compose(draft, _now(), found.extra_intents)
    if os.environ.get("TREADLE_RUN"):
        return _leave(args, letter)
    if has_effect(letter):
        sent = effect.deliver(found.layout, letter, _now())
    else:
        sent = post(found.layout.mail, letter)
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
    path = folder / drop(folder, letter)
    told = {"file": str(path), "message_id": letter.message_id}
    return output.say(args.json, told, f"left {path}; it is delivered when the step is committed")


def _draft(args: Namespace, to: str, word: str, task_id: str | None, headers: Headers) -> Draft:
    return Draft(
        sender=context.who(args) or HUMAN,
        to=to,
        intent=word,
        body=_body(args),
        task_id=task_id,
        status=args.status,
        headers=headers,
        created_at=parse_time(args.created_at) if args.created_at else None,
    )


def _headers(args: Namespace) -> Headers:
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
        return read_text(Path(name))
    except FormatError as error:
        raise UsageError(f"--body {name}: {error.message}") from error


def list_letters(args: Namespace) -> int:
    found = context.find_project()
    boxes = (args.box,) if args.box else BOXES if args.all else find.OPEN
    word = known_intent(args.intent, found.extra_intents) if args.intent else None
    if args.limit < 1:
        raise UsageError("--limit must be at least 1")
    agent = context.registered(found, args)
    with context.fresh(found, _now()) as store:
        rows = find.list_letters(store, find.LetterQuery(agent, boxes, args.task, word, args.limit))
        context.renew(found, store, agent)
    return _show(found, args, rows, "no letters")


def read_letter(args: Namespace) -> int:
    found = context.find_project()
    agent = context.registered(found, args)
    with context.fresh(found, _now()) as store:
        row = find.find_letter(store, args.file, agent)
        letter = find.open_letter(found.layout.mail, row)
        context.renew(found, store, agent)
    if letter.intent not in every_intent(found.extra_intents):
        output.warn(
            f"{row.name}: there is no intent {letter.intent}; mail.extra_intents can add it"
        )
    told = find.whole_document(found.layout, row, letter)
    return output.tell(args.json, told, output.block, write(letter))


def claim_letter(args: Namespace) -> int:
    found = _outside()
    agent = context.required(found, args)
    with Store.open(found.layout) as store:
        now = store.now()
        look_again = partial(_refresh, found, store, now)
        taken: claim.Claimed | None
        if args.file:
            look_again()
            taken = claim.claim(store, agent, args.file, now)
        else:
            taken = claim.claim_next(store, agent, now, look_again, args.task)
        tasks.renew_all(store, agent, now)
    if taken is None:
        told = {"file": None, "claim_id": None}
        return output.say(args.json, told, f"no letter waits for {agent}")
    shown = found.layout.shown(places.path(found.layout.mail, taken.row))
    whole = find.brief_document(found.layout, taken.row) | {"claim_id": taken.row.claim_id}
    return output.say(args.json, whole, f"{shown} is {agent}'s")


def acknowledge_letter(args: Namespace) -> int:
    found = _outside()
    agent = context.required(found, args)
    with Store.open(found.layout) as store:
        _refresh(found, store, _now())
        row = find.find_letter(store, args.file, agent)
        row = claim.acknowledge(store, found.layout.mail, row, agent)
        tasks.renew_all(store, agent, store.now())
    told = find.brief_document(found.layout, row)
    return output.say(args.json, told, f"acknowledged: {told['file']}")


def archive_letters(args: Namespace) -> int:
    if sum(value is not None for value in (args.file, args.task, args.older_than)) != 1:
        raise UsageError("give one of FILE, --task TASK and --older-than DAYS")
    found = _outside()
    mail = found.layout.mail
    with Store.open(found.layout) as store:
        _refresh(found, store, _now())
        if args.task:
            rows = claim.archive_task(store, mail, args.task)
        elif args.file:
            rows = [claim.archive(store, mail, find.find_letter(store, args.file))]
        else:
            age = timedelta(days=min(args.older_than, _CENTURY))
            rows = claim.archive_older(store, mail, age, _now())
    return _show(found, args, rows, "nothing to archive")


def watch_letters(args: Namespace) -> int:
    found = _outside()
    agent = context.registered(found, args)
    rows = find.watch(found.layout, agent, args.timeout, _now)
    _show(found, args, rows, "no letter came")
    return ExitCode.DONE if rows else ExitCode.FAILED


def search_letters(args: Namespace) -> int:
    found = context.find_project()
    with context.fresh(found, _now()) as store:
        rows = find.search(store, found.layout.mail, args.words, args.limit)
    return _show(found, args, rows, "no letter has these words")


def reindex_letters(args: Namespace) -> int:
    found = _outside()
    with Store.open(found.layout) as store:
        said = effect.rebuild(store, found.layout.mail, _now())
        count = sum(1 for _ in index.letter_paths(found.layout.mail))
    output.warn(*said)
    told = {"letters": count, "set_aside": said}
    return output.say(args.json, told, f"read {plural(count, 'letter')}")


def _outside() -> Place:
    found = context.find_project()
    refuse_inside_run(os.environ)
    return found


def _refresh(found: Place, store: Store, now: datetime) -> None:
    """Take in what others wrote, if there is anything, and tell what is no letter."""
    if index.is_stale(store, found.layout.mail):
        output.warn(*effect.refresh(store, found.layout.mail, now))


def _show(found: Place, args: Namespace, rows: list[LetterRow], nothing: str) -> int:
    heads = ["box", "of", "from", "to", "intent", "task", "file"]
    table = [
        (row.box, row.agent, row.sender, row.recipient, row.intent, row.task_id, row.name)
        for row in rows
    ]
    return output.table(args.json, find.list_document(found.layout, rows), heads, table, nothing)


def show_desk(args: Namespace) -> int:
    """List what is open, oldest first, each with its commands."""
    with context.fresh(context.find_project(), datetime.now(UTC)) as store:
        items = store.questions()
    return output.tell(args.json, questions.items_document(items), _print_desk, items)


def _print_desk(items: list[QuestionRow]) -> None:
    if not items:
        output.line("nothing waits for you")
    for item in items:
        about = "  ".join(word for word in (item.task_id, item.run_id) if word)
        head = f"{item.question_id}  {item.kind}  {item.created_at[:19]}Z  {about}"
        output.line(output.paint(head, "bold"))
        output.line(f"  {item.summary}")
        for number, option in enumerate(questions.labels(item), 1):
            output.line(f"  {number}. {option}")
        for command in questions.every_command(item):
            output.line(f"    {command}")
