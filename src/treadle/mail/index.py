"""Keep the index of letters up to what lies in the folders: what others wrote, moved or removed."""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle import markdown
from treadle.errors import BlockedError, FormatError, NotFoundError, UsageError, argument
from treadle.files import atomic
from treadle.ids import agent_name
from treadle.layout import LOGS, NEW_MESSAGES, MailLayout, inbox_name, workspace_name
from treadle.mail.letter import (
    WORK,
    Letter,
    agent_folders,
    format_time,
    has_effect,
    is_broadcast,
    numbered,
    parse_time,
    read_letter,
)
from treadle.store import letters as table
from treadle.store.letters import BoxFolder, FolderRow, LetterRow
from treadle.store.store import Reader, Store

NEW = BoxFolder("new", None, NEW_MESSAGES)


def inbox(agent: str) -> BoxFolder:
    """Return an agent's INBOX."""
    return BoxFolder("inbox", agent, inbox_name(agent))


def workspace(agent: str) -> BoxFolder:
    """Return an agent's WORKSPACE."""
    return BoxFolder("workspace", agent, workspace_name(agent))


def logs(agent: str | None, month: str | None = None) -> BoxFolder:
    """Return the LOGS, or one month of them; `agent` is whose the letter was."""
    return BoxFolder("logs", agent, f"{LOGS}/{month}" if month else LOGS)


def of_folder(folder: str) -> BoxFolder:
    """Return the place that a folder's name stands for."""
    match folder.split("/"):
        case [first] if first == NEW_MESSAGES:
            return NEW
        case [_, agent, "INBOX"]:
            return BoxFolder("inbox", agent_name(agent), folder)
        case [_, agent, "WORKSPACE"]:
            return BoxFolder("workspace", agent_name(agent), folder)
    return BoxFolder("logs", None, folder)


def path(mail: MailLayout, row: LetterRow) -> Path:
    """Return a letter's file."""
    return mail.root / row.folder / row.name


def not_yours(row: LetterRow, message: str, verb: str = "read") -> BlockedError:
    """Say that a letter is somebody else's, or nobody's any more."""
    return BlockedError(
        message,
        code="letter_not_yours",
        fix=[f"treadle mail {verb} {argument(row.name)}"],
        details={"file": f"{row.folder}/{row.name}", "to": row.recipient, "holder": row.agent},
    )


def gone(name: str) -> NotFoundError:
    """Say that a letter is not there any more."""
    return NotFoundError(
        f"letter {name} is gone: somebody moved or claimed it", fix=["treadle mail list"]
    )


def summary(letter: Letter) -> str:
    """Return what a letter is about, in one line."""
    return markdown.title(markdown.section(letter.body, "Summary") or letter.body)


def entry_row(letter: Letter, place: BoxFolder, name: str, *, pending: bool) -> LetterRow:
    """Return what the index says about a letter."""
    return LetterRow(
        None,
        *place,
        name,
        sender=letter.sender,
        recipient=letter.to,
        intent=letter.intent,
        task_id=letter.task_id,
        status=letter.status,
        created_at=letter.created_at,
        message_id=letter.message_id,
        in_reply_to=letter.header("in_reply_to"),
        expires_at=_expiry(letter),
        summary=summary(letter),
        pending=pending,
    )


def references(original: LetterRow, thread_id: str | None) -> tuple[tuple[str, str | None], ...]:
    """Return the headers of an answer to a letter."""
    reference = original.message_id or original.name
    return (("in_reply_to", reference), ("thread_id", thread_id or reference))


def _expiry(letter: Letter) -> str | None:
    value = letter.header("expires_at")
    try:
        return format_time(parse_time(value)) if value else None
    except UsageError:
        return None


TASKS = "TASKS"

# A folder's time moves in steps of some milliseconds: what happens within one of them after a
# look cannot be seen by the next one, so a folder that young is read again.
_GRAIN = 50_000_000


def stale(store: Reader, mail: MailLayout) -> tuple[list[str], dict[str, FolderRow]]:
    """Return the folders that have changed since the index was made, and how all looked then."""
    marks = table.folders(store)
    return [folder for folder in every_folder(mail) if has_changed(mail, folder, marks)], marks


def is_stale(store: Reader, mail: MailLayout) -> bool:
    """Tell whether any folder has changed since the index was made."""
    return bool(stale(store, mail)[0])


def is_recent(store: Reader) -> bool:
    """Tell whether new letters were looked for within the last second."""
    mark = table.folders(store).get(NEW_MESSAGES)
    return mark is not None and 0 <= time.time_ns() - mark.seen_ns < 1_000_000_000


def every_folder(mail: MailLayout) -> Iterator[str]:
    """Yield every folder that holds letters, and the one of the tasks."""
    yield NEW_MESSAGES
    for agent in agent_folders(mail):
        yield inbox_name(agent)
        yield workspace_name(agent)
    yield LOGS
    if mail.logs.is_dir():
        for path in mail.logs.iterdir():
            if path.is_dir() and path != mail.quarantine and path.name.isprintable():
                yield f"{LOGS}/{path.name}"
    yield TASKS


def has_changed(mail: MailLayout, folder: str, marks: dict[str, FolderRow]) -> bool:
    """Tell whether a folder may hold something else than when it was last read."""
    now_at, mark = dated(mail.root / folder), marks.get(folder)
    if mark is None:
        return now_at != 0
    return now_at != mark.mtime_ns or mark.seen_ns - now_at < _GRAIN


def dated(folder: Path) -> int:
    """Return a folder's time; 0 without one."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def move_letter(store: Store, mail: MailLayout, row: LetterRow, to: BoxFolder) -> LetterRow:
    """Move a letter; a kill in between leaves a file that the next look puts in its place."""
    moved = table.place(store, row, to, numbered(row.name))
    if moved is None:
        raise gone(row.name)
    return follow_file(store, mail, row, moved)


def follow_file(store: Store, mail: MailLayout, before: LetterRow, after: LetterRow) -> LetterRow:
    """Rename a letter's file to where the store says it is now."""
    folder = mail.root / after.folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        name = atomic.move(path(mail, before), folder, numbered(after.name))
    except FileNotFoundError as error:
        # Somebody else's look may have taken this for a move that a kill cut off, and made it.
        for now_at in table.with_id(store, after.letter_id or 0):
            if path(mail, now_at).exists():
                return now_at
        table.forget(store, [after])
        raise gone(before.name) from error
    if name != after.name:
        table.place(store, after, of_folder(after.folder), numbered(name))
    return after._replace(name=name)


# A file that is no letter yet may still be being written.
_YOUNG = 2_000_000_000


class _Found(NamedTuple):
    """What a look into a folder gave."""

    seen: FolderRow
    new: list[str]
    gone: list[LetterRow]


def take_in(
    store: Store, mail: MailLayout, stale: Sequence[str], marks: Mapping[str, FolderRow]
) -> list[str]:
    """Bring the index up to what lies in these folders; return what cannot be read."""
    said: list[str] = []
    found = [_look(store, mail, folder) for folder in stale if folder != TASKS]
    for look in found:
        said += _take_in(store, mail, look)
    # Only now: what vanished here may have been moved there.
    if gone := [row for look in found for row in _still_gone(store, mail, look)]:
        table.forget(store, gone)
    vanished = sorted(set(marks) - set(every_folder(mail)))
    table.mark(store, [look.seen for look in found], vanished)
    return said


def letter_paths(mail: MailLayout) -> Iterator[str]:
    """Yield every letter's path below the mail's root."""
    for folder in every_folder(mail):
        if folder != TASKS:
            yield from (f"{folder}/{name}" for name in _letters(mail.root / folder))


def _look(store: Store, mail: MailLayout, folder: str) -> _Found:
    seen = FolderRow(folder, dated(mail.root / folder), time.time_ns())
    known = table.names_in(store, folder)
    there = set(_letters(mail.root / folder))
    gone = [
        found for name in known if name not in there if (found := table.at(store, folder, name))
    ]
    return _Found(seen, sorted(there - known.keys()), gone)


def _letters(folder: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".md") and not entry.name.startswith("."):
                yield entry.name


def _take_in(store: Store, mail: MailLayout, look: _Found) -> list[str]:
    said: list[str] = []
    rows: list[LetterRow] = []
    for name in look.new:
        if not (name.isprintable() and _moved(store, mail, look.seen.folder, name)):
            rows += _first_sight(mail, look.seen.folder, name, said)
    if rows:
        table.insert(store, rows)
    return said


def _moved(store: Store, mail: MailLayout, folder: str, name: str) -> bool:
    """Recognise a letter that is known from elsewhere and has left there."""
    for known in table.named(store, name):
        if path(mail, known).exists() or known.folder == folder:
            continue
        if folder == NEW_MESSAGES and known.box != "new":
            # Claimed, and the claimant was cut off before the file followed.
            follow_file(store, mail, known._replace(folder=folder), known)
        else:
            to = of_folder(folder)
            again = to.box == "inbox" and known.intent in WORK
            table.place(store, known._replace(pending=again), to, iter((name,)))
        return True
    return False


def _first_sight(mail: MailLayout, folder: str, name: str, said: list[str]) -> list[LetterRow]:
    path, where = mail.root / folder / name, of_folder(folder)
    live = where.box in ("new", "inbox")
    try:
        letter = read_letter(path)
    except FormatError as error:
        if live and not _is_young(path):
            said.append(_set_aside(mail, path, error.message))
        return []
    found = entry_row(letter, where, name, pending=live and has_effect(letter))
    is_copy = where.box == "inbox" and is_broadcast(letter)
    return [found._replace(copy_of=name, pending=False) if is_copy else found]


def _is_young(path: Path) -> bool:
    try:
        return abs(time.time_ns() - path.lstat().st_mtime_ns) < _YOUNG
    except OSError:
        return True


def _set_aside(mail: MailLayout, path: Path, reason: str) -> str:
    mail.quarantine.mkdir(parents=True, exist_ok=True)
    name = atomic.move(path, mail.quarantine, numbered(path.name))
    document = {"file": f"{path.parent.relative_to(mail.root)}/{path.name}", "reason": reason}
    aside = mail.quarantine / f"{name}.reason.json"
    aside.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    return f"{path.name} was set aside in LOGS/quarantine: {reason}"


def _still_gone(store: Store, mail: MailLayout, look: _Found) -> Iterator[LetterRow]:
    """Yield what is nowhere; a letter on its way is still, or already, at one of its places."""
    for known in look.gone:
        now_at = table.at(store, known.folder, known.name)
        if now_at and not (_is_somewhere(mail, now_at) or _is_somewhere(mail, now_at)):
            yield now_at


def _is_somewhere(mail: MailLayout, row: LetterRow) -> bool:
    own = (inbox_name(row.agent), workspace_name(row.agent)) if row.agent else ()
    folders = (NEW_MESSAGES, *own, LOGS, row.folder)
    return any((mail.root / folder / row.name).exists() for folder in folders)
