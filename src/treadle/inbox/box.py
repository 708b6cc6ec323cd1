"""The inbox and the specs on disk: list, read without being led astray, send, move, bury."""

import contextlib
import hashlib
import itertools
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from treadle import frontmatter
from treadle.contract import load_object
from treadle.engine.landing import tracker
from treadle.errors import BlockedError, FormatError, NotFoundError, TreadleError, UsageError
from treadle.files import atomic, beneath, sync, walk
from treadle.ids import hint, utc
from treadle.inbox.message import FIELDS, is_chain, read_text
from treadle.layout import Layout
from treadle.store.messages import MessageRow, waiting
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.store import Store
from treadle.tasks import questions
from treadle.tasks.questions import Question
from treadle.text import line

MAX_BYTES = 1 << 20
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_MAX_NAME = 150


def names(layout: Layout) -> list[str]:
    """Return the names that may be messages, in order; what is being written is not there yet."""
    return sorted(filter(is_candidate, walk.names(layout.inbox)))


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
            f"run {env.get('TREADLE_RUN')} carries no message out, so nothing can follow from it",
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
        summary=f"{name}: {error.message}",
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


def retry_dead(layout: Layout, store: Store, letter: DeadLetter, now: datetime) -> str:
    """Put a dead letter back into the inbox, its attempts forgotten; return its name there."""
    path = layout.inbox_dead / letter.name
    row = store.message(str(letter.reason.get("message_id")))
    name = f"{row.message_id}.md" if row else letter.name
    if row:
        last = row.run_ids[-1] if row.run_ids else row.after_run
        fresh = row._replace(status="waiting", run_ids=(), reason=None, after_run=last)
        store.save_message(fresh._replace(updated_at=utc(now)))
    try:
        sync.rename_new(path, layout.inbox / name)
    except FileExistsError as error:
        raise BlockedError(
            f"{name} is already in the inbox", code="name_taken", fix=["treadle process"]
        ) from error
    path.with_name(path.name + REASON).unlink(missing_ok=True)
    questions.close(store, Subject("message", letter.name), "retry", now)
    return name


def _read_reason(layout: Layout, name: str) -> dict[str, object]:
    path = layout.inbox_dead / f"{name}{REASON}"
    try:
        data = walk.read(path, max_bytes=_MAX_REASON)
        return load_object(data, source=path.name)
    except FormatError as error:
        return {"code": "unknown", "message": error.message}


SUFFIX = ".spec.md"
_NUMBER = re.compile(r"\d+")


class Spec(NamedTuple):
    """One spec: its file's name and bytes, its text without fields, the routine it names."""

    name: str
    digest: str
    text: str
    routine: str | None


def require_specs_folder(layout: Layout) -> None:
    """Refuse a folder of specs that git does not see into: its list could never land."""
    what = "a symbolic link" if layout.specs.is_symlink() else "a repository of its own"
    if layout.specs.is_symlink() or os.path.lexists(layout.specs / ".git"):
        name = layout.relative(layout.specs)
        raise BlockedError(
            f"{name} is {what}, so the list of finished specs in it cannot be landed;"
            " make it a plain folder of this repository",
            code="specs_elsewhere",
            fix=[f"ls -la {name}"],
        )


def spec_names(layout: Layout) -> list[str]:
    """Return every spec's file name, in the order they are worked on."""
    return [name for name in all_specs(layout) if is_listable(name)]


def all_specs(layout: Layout) -> list[str]:
    """Return the names of all specs, also those that cannot stand in a list of one name a line."""
    found = walk.names(layout.specs)
    return sorted(name for name in found if name.endswith(SUFFIX) and not name.startswith("."))


def is_listable(name: str) -> bool:
    """Tell whether a name is one line of text."""
    return name.isprintable() and name == name.strip()


def unprocessed_specs(layout: Layout) -> list[str]:
    """Return the specs that the tracker does not list."""
    done = tracker.names(tracker.read(layout))
    return [name for name in spec_names(layout) if name not in done]


def mark_spec_processed(layout: Layout, name: str) -> None:
    """List a spec, once."""
    content = tracker.read(layout)
    if name in tracker.names(content):
        return
    line = tracker.add(content, name)[len(content) :]
    try:
        atomic.append(layout.tracker, line)
    except FileNotFoundError:  # its routine took the folder away
        layout.specs.mkdir()
        atomic.append(layout.tracker, line)


def spec_path(name: str) -> str:
    """Return what a message for this spec has as its `input_file`."""
    return f"specs/{name}"


def glance_at_spec(layout: Layout, name: str) -> tuple[str | None, str | None]:
    """Return a spec's digest and the routine it names, None for what cannot be read."""
    try:
        data = read(f"{layout.specs}/{name}")
    except (FormatError, OSError):
        return None, None
    routine = None
    with contextlib.suppress(FormatError):
        routine = read_text(frontmatter.read(data).fields.get("routine"))
    return hashlib.sha256(data).hexdigest(), routine


def read_spec(layout: Layout, input_file: str | None) -> Spec:
    """Return a spec by its path in the project; FormatError if it is not there or no text."""
    path = PurePosixPath(input_file or "")
    if input_file is None or path.is_absolute() or ".." in path.parts or "\0" in input_file:
        raise _missing_spec(input_file)
    try:
        is_inside = beneath.is_within(layout.root, str(path))
        data = read(f"{layout.root}/{path}") if is_inside else None
    except OSError as error:
        raise _missing_spec(input_file) from error
    if data is None:
        raise _missing_spec(input_file)
    document = frontmatter.read(data)
    return Spec(
        name=path.name,
        digest=hashlib.sha256(data).hexdigest(),
        text=document.body.decode(),
        routine=read_text(document.fields.get("routine")),
    )


def _missing_spec(input_file: str | None) -> FormatError:
    what = f"{input_file[:200]!r} is not a file of this project" if input_file else "there is none"
    return FormatError(f"input_file: {what}; name a spec in it", code="spec_not_found")


def specs_out_of_order(found: list[str]) -> tuple[str, str] | None:
    """Return two specs whose numbers say another order than their names."""
    numbered = [(int(number[0]), name) for name in found if (number := _NUMBER.match(name))]
    pairs = itertools.pairwise(numbered)
    return next(((one[1], two[1]) for one, two in pairs if one[0] > two[0]), None)
