"""The inbox on disk: list, read without being led astray, send, move, bury."""

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from treadle import frontmatter
from treadle.contract import load_object
from treadle.engine.run import memory
from treadle.errors import (
    BlockedError,
    FormatError,
    NotFoundError,
    TreadleError,
    UsageError,
    argument,
)
from treadle.files import atomic, beneath, sync, walk
from treadle.ids import hint, utc
from treadle.inbox.message import FIELDS, is_chain
from treadle.layout import Layout
from treadle.store.messages import MessageRow, waiting
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.store import Reader, Store
from treadle.tasks import questions
from treadle.tasks.questions import Question
from treadle.text import line

MAX_BYTES = 1 << 20
SUFFIX = ".spec.md"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_MAX_NAME = 150


def names(layout: Layout) -> list[str]:
    """Return the names that may be messages, in order; what is being written is not there yet."""
    return sorted(filter(is_candidate, walk.names(layout.inbox)))


def find_waiting(layout: Layout, store: Reader, text: str) -> list[str]:
    """Return the files of the inbox that are called so: by name, message id or chain.

    NotFoundError for a message that is not there any more.
    """
    # A dead letter got a number where another had its name.
    waits, word = names(layout), text.removesuffix(".md")
    wanted = [f"{word}.md", f"{word.partition('~')[0]}.md"]
    chain = [f"{row.message_id}.md" for row in store.chain_messages(text)]
    for group in (wanted[:1], wanted[1:], chain):
        if found := [name for name in group if name in waits]:
            return found
    row = store.message(word)
    if row is None:
        return []
    retry, why = f"treadle dead retry {row.message_id}", [f"treadle why {it}" for it in row.run_ids]
    raise NotFoundError(
        f"message {row.message_id} is {row.status} and not in the inbox",
        fix=[retry] if row.status == "dead" else why[-1:] or ["treadle process --dry-run"],
    )


def remove_beginnings(layout: Layout) -> None:
    """Remove what a killed pass had begun to write; only a pass writes such names here."""
    for name in walk.names(layout.inbox):
        if name.startswith(".") and ".md.tmp-" in name:
            (layout.inbox / name).unlink(missing_ok=True)


def is_candidate(name: str) -> bool:
    """Tell whether a name in the inbox is one of a message."""
    return name.endswith(".md") and not name.startswith(".")


def read(path: Path | str) -> bytes:
    """Return a message's bytes; FormatError unless it is a plain, small file of UTF-8 text."""
    state = os.lstat(path)
    if not stat.S_ISREG(state.st_mode):
        raise _odd(path, "is not a plain file")
    if state.st_nlink > 1:
        raise _odd(path, "is a hard link")
    if state.st_size > MAX_BYTES:
        raise _odd(path, f"is larger than {MAX_BYTES >> 20} MiB")
    data = walk.read(path, max_bytes=MAX_BYTES)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _odd(path, f"is not UTF-8 text (byte {error.start})") from error
    return data


def _odd(path: Path | str, what: str) -> FormatError:
    return FormatError(f"{line(Path(path).name)} {what}", code="message_unreadable")


def put(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Put a new message down under a name that must be free: whole, or not there.

    One that can be made again need not be `lasting`: a power cut may take its name.
    """
    folder = path.parent
    staged = f"{folder}/.{path.name}.tmp"
    try:
        atomic.create(staged, data, durable=True)
    except (FileExistsError, FileNotFoundError):  # left by a kill, or the first of all
        beneath.remove_tree(Path(staged))
        folder.mkdir(parents=True, exist_ok=True)
        atomic.create(staged, data, durable=True)
    sync.rename_new(staged, path)
    if lasting:
        atomic.sync(folder)


def move(path: Path, folder: Path) -> Path:
    """Move a file, whatever it is, under a safe name that nothing there has."""
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        target = folder / _free_name(folder, safe_name(path.name))
        with contextlib.suppress(FileExistsError):
            sync.rename_new(path, target)
            return target


def settle(layout: Layout) -> None:
    """Make durable what a pass moved and listed; until then the store tells what is done.

    Where a file went comes before where it was: a power cut between them may show it twice.
    """
    gone_to = (layout.inbox_done, layout.inbox_dead, layout.specs, layout.tracker)
    for path in (*gone_to, layout.inbox):
        if path.exists():
            atomic.sync(path.resolve())


def safe_name(name: str) -> str:
    """Return a name that is nothing but a name."""
    clean = _UNSAFE.sub("_", os.fsencode(name).decode(errors="replace")).lstrip("._-")
    stem = clean.removesuffix(".md")[:_MAX_NAME]
    return f"{stem or 'message'}.md"


def _free_name(folder: Path, name: str) -> str:
    stem, number, free = name.removesuffix(".md"), 1, name
    while os.path.lexists(folder / free):
        number += 1
        free = f"{stem}~{number:03d}.md"
    return free


_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class NewMessage(NamedTuple):
    """A message that has no place yet."""

    body: bytes
    routine: str | None = None
    chain: str | None = None
    fields: Mapping[str, str] = {}


class SentMessage(NamedTuple):
    """Where a message is now; one in an outbox gets its id when its run has ended."""

    file: str
    message_id: str | None = None


def parse_fields(words: list[str]) -> dict[str, str]:
    """Read `--field key=value` options."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise UsageError(f"--field {word!r}: write it as --field key=value")
        if key in FIELDS:
            raise UsageError(f"--field {key}: a message has its own {key}")
        if key in found:
            raise UsageError(f"--field {key} is given twice")
        found[key] = value
    return found


def draft(
    text: str, routine: str | None, chain: str | None, fields: Mapping[str, str]
) -> NewMessage:
    """Return a message to be sent; UsageError if it makes no sense."""
    if not text.strip():
        raise UsageError("a message must not be empty")
    if chain is not None and not is_chain(chain):
        raise UsageError(f"--chain {chain!r}: use letters, digits and . _ -, at most 128 of them")
    body = text if text.endswith("\n") else f"{text}\n"
    return NewMessage(body.encode(errors="surrogateescape"), routine, chain, fields)


def send(layout: Layout, store: Store, message: NewMessage, now: datetime) -> SentMessage:
    """Put a message into the inbox: whole, or not there."""
    row = store.add_message(
        waiting(message.chain or "", 0, utc(now))._replace(
            routine=message.routine, digest=hashlib.sha256(message.body).hexdigest()
        )
    )
    place = {"id": row.message_id, "chain": row.chain, "seq": str(row.seq)}
    path = layout.inbox / f"{row.message_id}.md"
    put(path, _file_of(message, place))
    return SentMessage(str(path), row.message_id)


def send_from_run(env: Mapping[str, str], message: NewMessage) -> SentMessage:
    """Leave a message in the outbox of the step that sends it."""
    outbox = env.get("TREADLE_OUTBOX")
    if not outbox:
        raise BlockedError(
            f"run {env.get('TREADLE_RUN')} carries out no message, so it cannot send a follow-up",
            code="no_outbox",
        )
    place = {"chain": message.chain} if message.chain else {}
    name = f"{time.time_ns()}-{secrets.token_hex(3)}.md"
    path = Path(outbox, name)
    put(path, _file_of(message, place))
    return SentMessage(str(path), None)


def _file_of(message: NewMessage, place: Mapping[str, str]) -> bytes:
    routine = {"routine": message.routine} if message.routine else {}
    fields = {**place, **routine, **message.fields}
    # A body that begins with a rule of its own must not be taken for fields.
    return frontmatter.set_fields(b"", fields) + message.body if fields else message.body


REASON = ".reason.json"
_MAX_REASON = 1 << 20


class DeadLetter(NamedTuple):
    """A dead letter's file name and what its reason file says."""

    name: str
    reason: dict[str, object]


def bury(
    layout: Layout, store: Store, path: Path, error: TreadleError, row: MessageRow | None
) -> str:
    """Make a dead letter of a message and return its name: told first, moved last.

    A kill in between leaves the message in the inbox, where the next pass buries it again.
    """
    now = store.now()
    name = _free_name(layout.inbox_dead, safe_name(path.name))
    fix = (f"treadle dead show {name}", f"treadle dead retry {name}")
    reason = {
        "code": error.code,
        "message": error.message,
        **error.details,
        "fix": list(dict.fromkeys((*error.fix, *fix))),
        "at": utc(now),
        "file": line(path.name),
        "message_id": row.message_id if row else None,
        "spec": row.spec if row else None,
        "run_ids": list(row.run_ids) if row else [],
    }
    data = json.dumps(reason, indent=2, ensure_ascii=False).encode(errors="backslashreplace")
    layout.inbox_dead.mkdir(parents=True, exist_ok=True)
    atomic.write(layout.inbox_dead / f"{name}{REASON}", data + b"\n")
    run_id = row.run_ids[-1] if row and row.run_ids else None
    question = Question(
        kind="dead_letter",
        summary=f"{(row and row.spec) or name}: {error.message}",
        subject=Subject("message", name),
        actions=(Action("retry"), LEAVE),
        look=fix[:1],
        run_id=run_id,
    )

    def tell(tx: Store) -> None:
        if error.code != "not_approved":  # else a human has said so already
            questions.ask(tx, question, now)
        if row:
            tx.save_message(row._replace(status="dead", reason=error.code, updated_at=utc(now)))

    store.write(tell)
    return move(path, layout.inbox_dead).name


def unfinished_burial(layout: Layout, name: str) -> TreadleError | None:
    """Return why a message was to be buried when a kill came between its reason and its move."""
    letter = layout.inbox_dead / name
    if os.path.lexists(letter) or not letter.with_name(f"{name}{REASON}").exists():
        return None
    reason = _read_reason(layout, name)
    text, word, fix = (reason.get(key) for key in ("message", "code", "fix"))
    commands = [str(item) for item in fix] if isinstance(fix, list) else []
    return TreadleError(str(text), code=str(word), fix=commands)


def dead_letters(layout: Layout) -> list[DeadLetter]:
    """Return every dead letter, by name."""
    found = sorted(name for name in walk.names(layout.inbox_dead) if name.endswith(".md"))
    return [DeadLetter(name, _read_reason(layout, name)) for name in found]


def dead_document(found: Sequence[DeadLetter]) -> dict[str, object]:
    """Return dead letters as programs get them."""
    return {"letters": [{"name": item.name, **item.reason} for item in found]}


def find_dead(layout: Layout, text: str) -> DeadLetter:
    """Return a dead letter by its file name, its message id or its spec."""
    found = dead_letters(layout)
    for letter in found:
        known = (letter.name, letter.reason.get("message_id"), letter.reason.get("spec"))
        if text in known or f"{text}.md" == letter.name:
            return letter
    near = hint(text, [letter.name for letter in found])
    raise NotFoundError(f"there is no dead letter {text!r}{near}", fix=["treadle dead list"])


def text_of_dead(layout: Layout, letter: DeadLetter) -> str:
    """Return a dead letter's own words, if it is a plain text."""
    try:
        return read(layout.inbox_dead / letter.name).decode()
    except FormatError as error:
        return f"({error.message})"


def start_anew(store: Store, row: MessageRow, now: datetime) -> None:
    """Let a message begin once more, its attempts forgotten and what was asked about it closed."""
    runs = store.message_runs(row.message_id, row.after_run or "")
    last = runs[-1].run_id if runs else row.after_run
    fresh = row._replace(status="waiting", run_ids=(), reason=None, after_run=last)

    def tell(tx: Store) -> None:
        tx.save_message(fresh._replace(updated_at=utc(now)))
        close_questions(tx, row, [run.run_id for run in runs], "retry", now)

    store.write(tell)


def close_questions(
    tx: Store, row: MessageRow, run_ids: Sequence[str], why: str, now: datetime
) -> None:
    """Close what was asked about a message, its spec and its runs."""
    for subject in subjects(row):
        questions.close(tx, subject, why, now)
    for run_id in run_ids:
        questions.settle(tx, run_id, why, now)


def retry(layout: Layout, store: Store, text: str, now: datetime) -> str:
    """Let a dead letter begin anew, or a message whose work has not landed; return its name."""
    row = store.message(text)
    if row is None or row.status not in ("refused", "done"):
        return retry_dead(layout, store, find_dead(layout, text), now)
    name, last = f"{row.message_id}.md", row.run_ids[-1] if row.run_ids else ""
    if row.spec or memory.recall(store, last).landed_commit:
        fix = f"treadle spec retry {argument(row.spec)}" if row.spec else f"treadle undo {last}"
        raise BlockedError(f"{text} is {row.status}, not a dead letter", code="not_dead", fix=[fix])
    start_anew(store, row, now)
    if not (layout.inbox / name).exists():
        sync.rename_new(layout.inbox_done / name, layout.inbox / name)
    return name


def subjects(row: MessageRow) -> list[Subject]:
    """Return what a question about a message can be about: it, its dead letter, its spec."""
    found = [Subject("message", row.message_id), Subject("message", f"{row.message_id}.md")]
    return [*found, *([Subject("spec", row.spec)] if row.spec else [])]


def retry_dead(layout: Layout, store: Store, letter: DeadLetter, now: datetime) -> str:
    """Put a dead letter back into the inbox, its attempts forgotten; return its name there."""
    row = store.message(str(letter.reason.get("message_id")))
    name = f"{row.message_id}.md" if row else letter.name
    if row:
        start_anew(store, row, now)
    try:
        sync.rename_new(layout.inbox_dead / letter.name, layout.inbox / name)
    except FileExistsError as error:
        raise BlockedError(
            f"{name} is already in the inbox", code="name_taken", fix=["treadle process"]
        ) from error
    forget_reason(layout, letter)
    questions.close(store, Subject("message", letter.name), "retry", now)
    return name


def forget_reason(layout: Layout, letter: DeadLetter) -> None:
    """Remove what was written down about a dead letter that is none any more."""
    (layout.inbox_dead / f"{letter.name}{REASON}").unlink(missing_ok=True)


def _read_reason(layout: Layout, name: str) -> dict[str, object]:
    path = layout.inbox_dead / f"{name}{REASON}"
    try:
        data = walk.read(path, max_bytes=_MAX_REASON)
        return load_object(data, source=path.name)
    except FormatError as error:
        return {"code": "unknown", "message": error.message}


def is_still(layout: Layout, name: str, now: float, seconds: float) -> bool:
    """Tell whether nobody has written to a spec for so long."""
    with contextlib.suppress(OSError):
        return abs(now - Path(layout.specs, name).lstat().st_mtime) >= seconds
    return False
