"""`treadle mail`: send, read, claim, answer and archive letters."""

import contextlib
import os
import shlex
import sys
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, count
from pathlib import Path

from treadle.cli import context, output
from treadle.errors import ExitCode, FormatError, TreadleError, UsageError
from treadle.ids import age, local
from treadle.layout import BOXES
from treadle.mail import claim, effect, find, index
from treadle.mail import index as places
from treadle.mail.find import FoundLetters
from treadle.mail.letter import (
    MAX_BYTES,
    Draft,
    Letter,
    addressees,
    compose,
    decode,
    drop,
    every_intent,
    file_names,
    has_effect,
    known_intent,
    locate,
    parse_time,
    post,
    read_text,
    registered_agents,
    reply_intent,
    typos,
    write,
)
from treadle.missions import adopt
from treadle.project import Place, refuse_inside_run
from treadle.store.store import Reader, Store
from treadle.tasks import claim as tasks
from treadle.text import plural

Headers = tuple[tuple[str, str | None], ...]

_FURTHER = "status", "summary", "body", "priority", "due-at", "expires-at", "created-at"
_CENTURY = 36_500.0


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
    mail = found.layout.mail
    letter = _composed(found, args, draft)
    if os.environ.get("TREADLE_RUN"):
        return _leave(args, letter)
    known = registered_agents(mail)
    if has_effect(letter):
        _bring_in_task(found, letter)
        sent = effect.deliver(found.layout, letter, _now())
    else:
        sent = post(mail, letter)
    context.required(found, args)
    output.warn(*sent.said, *typos(addressees(letter.to), known))
    shown = found.layout.shown(locate(mail, sent.name) or mail.new / sent.name)
    told = {"file": shown, "message_id": sent.letter.message_id}
    return output.say(args.json, told, f"sent {shown}")


def _composed(found: Place, args: Namespace, draft: Draft) -> Letter:
    """Return a draft as a letter; work that names no task is refused with what would be sent."""
    try:
        return compose(draft, _now(), found.extra_intents)
    except UsageError as error:
        if error.code != "task_id_missing":
            raise
        with Reader.open(found.layout) as store:
            free = (f"T-{number}" for number in count(1))
            task_id = next(name for name in free if store.task(name) is None)
        raise UsageError(
            f"{error.message}: the id of a task, or a new one such as {task_id}",
            code=error.code,
            fix=[_command(args, draft, task_id)],
        ) from error


def _command(args: Namespace, draft: Draft, task_id: str) -> str:
    """Return the command that sends a draft about a task."""
    reply_to = args.reply_to if "reply_to" in args else args.file
    values = (("to", draft.to), ("intent", draft.intent), ("task", task_id), ("reply-to", reply_to))
    said = (*values, *((name, getattr(args, name.replace("-", "_"))) for name in _FURTHER))
    words = ["treadle mail send", *(["--ack-required"] if args.ack_required else [])]
    pairs = (("from", args.who), *said, *(("ac", item) for item in args.ac or ()))
    words += [f"--{name}={shlex.quote(value)}" for name, value in pairs if value]
    return " ".join(words)


def _bring_in_task(found: Place, letter: Letter) -> None:
    """Let the store know a mission's task before a letter about it has its effect."""
    if letter.task_id and adopt.is_mission_task(letter.task_id, None):
        with Store.open(found.layout) as store, contextlib.suppress(TreadleError):
            adopt.resolve_task(found.layout, store, letter.task_id, None, _now())


def _leave(args: Namespace, letter: Letter) -> int:
    """Inside a run: leave the letter in the step's outbox, from where it is delivered."""
    outbox = os.environ.get("TREADLE_LETTERS")
    if not outbox:
        refuse_inside_run(os.environ)
    folder = Path(outbox or "")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / drop(folder, letter, file_names(letter))
    told = {"file": str(path), "message_id": letter.message_id}
    return output.say(args.json, told, f"left {path}; it is delivered when the step is committed")


def _draft(args: Namespace, to: str, word: str, task_id: str | None, headers: Headers) -> Draft:
    return Draft(
        sender=context.writer(args),
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
    agent = context.reader(found, args)
    asked = find.LetterQuery(agent, boxes, args.task, word, args.limit)
    with context.fresh(found, _now()) as store:
        listed = find.list_letters(store, asked)
        context.renew(found, store, agent)
    return _show(found, args, listed, "no letters")


def read_letter(args: Namespace) -> int:
    found = context.find_project()
    agent = context.reader(found, args)
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
        elif args.task:
            taken = claim.claim_of_task(store, agent, args.task, now, look_again)
        else:
            taken = claim.claim_next(store, agent, now, look_again)
        tasks.renew_all(store, agent, now)
    if taken is None:
        told = {"file": None, "reason": "nothing_waits"}
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
    return _show(found, args, FoundLetters(rows, len(rows)), "nothing to archive")


def watch_letters(args: Namespace) -> int:
    found = _outside()
    agent = context.reader(found, args)
    came = find.watch(found.layout, agent, args.timeout, _now)
    rows = next(came, [])
    if args.follow and args.json:
        for row in chain(rows, chain.from_iterable(came)):
            output.print_json_line(find.brief_document(found.layout, row))
    else:
        _show(found, args, FoundLetters(rows, len(rows)), "no letter came")
        for more in came if args.follow else ():
            _show(found, args, FoundLetters(more, len(more)), "")
    return ExitCode.DONE if rows else ExitCode.FAILED


def show_thread(args: Namespace) -> int:
    found = context.find_project()
    with context.fresh(found, _now()) as store:
        listed = find.thread(store, find.find_letter(store, args.file, context.reader(found, args)))
    return _show(found, args, listed, "")


def list_agents(args: Namespace) -> int:
    found = context.find_project()
    with context.fresh(found, _now()) as store:
        agents = find.agents(store, found.layout.mail, store.now())
    told = {"agents": [it._asdict() for it in agents], "total": len(agents), "more": False}
    rows = [
        (
            it.agent,
            f"{age(it.last_seen, _now())} ago" if it.last_seen else "never",
            it.unread,
            ", ".join(
                f"{held['task_id']} until {local(held['until'] or '')}" for held in it.leases
            ),
        )
        for it in agents
    ]
    heads = ["agent", "last seen", "unread", "holds"]
    return output.table(args.json, told, heads, rows, "nobody has taken part yet")


def search_letters(args: Namespace) -> int:
    found = context.find_project()
    with context.fresh(found, _now()) as store:
        listed = find.search(store, found.layout.mail, args.words, args.limit)
    return _show(found, args, listed, "no letter has these words")


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
    output.warn(*effect.refresh(store, found.layout.mail, now))


def _show(found: Place, args: Namespace, listed: FoundLetters, nothing: str) -> int:
    heads = ["box", "of", "from", "to", "intent", "task", "file"]
    table = [
        (row.box, row.agent, row.sender, row.recipient, row.intent, row.task_id, row.name)
        for row in listed.rows
    ]
    told = find.list_document(found.layout, listed)
    output.table(args.json, told, heads, table, nothing)
    if told["more"] and not args.json:
        output.line(f"{listed.total} in all; --limit {listed.total} shows them")
    return ExitCode.DONE
