"""Keep the index of letters up to what lies in the folders: what others wrote, moved or removed."""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from treadle import markdown
from treadle.errors import BlockedError, FormatError, NotFoundError, UsageError, argument
from treadle.files import atomic
from treadle.ids import agent_name, utc
from treadle.layout import (
    HOME_NAME,
    LOGS,
    NEW_MESSAGES,
    MailLayout,
    inbox_name,
    is_within,
    workspace_name,
)
from treadle.mail.letter import (
    COPY_HEADER,
    WORK,
    Letter,
    folder_of,
    format_time,
    has_effect,
    is_broadcast,
    letter_folders,
    names_for,
    parse_time,
    rank,
    read_letter,
)
from treadle.store import letters as table
from treadle.store.letters import BoxFolder, FolderRow, LetterRow
from treadle.store.store import Reader, Store

NEW = BoxFolder("new", None, NEW_MESSAGES)


def inbox(mail: MailLayout, agent: str) -> BoxFolder:
    """Return an agent's INBOX."""
    return BoxFolder("inbox", agent, inbox_name(folder_of(mail, agent)))


def workspace(mail: MailLayout, agent: str) -> BoxFolder:
    """Return an agent's WORKSPACE."""
    return BoxFolder("workspace", agent, workspace_name(folder_of(mail, agent)))


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
    wants = (letter.header("ack_required") or "").lower() in ("true", "yes", "1")
    is_acknowledged = wants and (place.box != "new" or not is_broadcast(letter))
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
        expires_at=_moment(letter, "expires_at"),
        summary=summary(letter),
        copy_of=letter.header(COPY_HEADER),
        pending=pending and letter.header(COPY_HEADER) is None,
        rank=rank(letter) if place.box != "logs" else table.NORMAL,
        thread_id=letter.header("thread_id"),
        ack_by=_moment(letter, "due_at") if is_acknowledged else None,
    )


def references(original: LetterRow, thread_id: str | None) -> tuple[tuple[str, str | None], ...]:
    """Return the headers of an answer to a letter."""
    reference = original.message_id or original.name
    return (("in_reply_to", reference), ("thread_id", thread_id or reference))


def _moment(letter: Letter, header: str) -> str | None:
    value = letter.header(header)
    try:
        return format_time(parse_time(value)) if value else None
    except UsageError:
        return None


TASKS = "TASKS"
# How the mark begins that says when a tree was looked at for the first time; its root follows.
_ADOPTED = "."

# A folder's time moves in steps of some milliseconds: what happens within one of them after a
# look cannot be seen by the next one, so a folder that young is read again.
_GRAIN = 50_000_000


def stale(store: Reader, mail: MailLayout) -> tuple[list[str], dict[str, FolderRow]]:
    """Return the folders that have changed since the index was made, and how all looked then."""
    marks = table.folders(store)
    there = set(letter_folders(mail))
    known = there | {TASKS}
    gone = [name for name in marks if name not in known and not name.startswith(_ADOPTED)]
    # Where a row has moved since the last look, a kill may have left its file behind.
    moved = table.last_moved(store)
    left = {
        it for it in there & marks.keys() if marks[it].seen_ns < moved and not it.startswith(LOGS)
    }
    changed = (it for it in sorted(there) if it in left or has_changed(mail, it, marks))
    folders = [*gone, *changed]
    return folders + ([TASKS] if store.unseen_tasks(mail.tasks) else []), marks


def adopted_at(marks: Mapping[str, FolderRow], mail: MailLayout) -> int | None:
    """Return when the tree was first looked at; None if it never was."""
    if mark := marks.get(f"{_ADOPTED}{mail.root}"):
        return mark.mtime_ns
    # An older treadle left no such mark; with one, it is that of another tree.
    return 0 if marks and not any(name.startswith(_ADOPTED) for name in marks) else None


def mark_adopted(store: Store, mail: MailLayout) -> None:
    """Remember when the first letter was sent into a tree that nobody has looked at."""
    if adopted_at(table.folders(store), mail) is None:
        table.mark(store, [_adoption(mail)])


def _adoption(mail: MailLayout) -> FolderRow:
    return FolderRow(f"{_ADOPTED}{mail.root}", time.time_ns(), 0)


def lay_there(path: Path, at: int) -> bool:
    """Tell whether a file lies where it lay at a moment, as it was; moving it changes its time."""
    with contextlib.suppress(OSError):
        state = path.lstat()
        return max(state.st_mtime_ns, state.st_ctime_ns) <= at
    return False


def is_stale(store: Reader, mail: MailLayout) -> bool:
    """Tell whether a folder has changed since the index was made, or a letter waits for a look.

    Another user, who may only read, sees what the owner's last command knew.
    """
    if not os.access(mail.root, os.W_OK):
        return False
    if stale(store, mail)[0] or table.released(store, "") or table.finished(store):
        return True
    return bool(table.overdue(store, format_time(datetime.now(UTC))))


def is_recent(store: Reader) -> bool:
    """Tell whether new letters were looked for within the last second."""
    mark = table.folders(store).get(NEW_MESSAGES)
    return mark is not None and 0 <= time.time_ns() - mark.seen_ns < 1_000_000_000


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
    if not is_within(mail.root, to.folder):
        where = f"{mail.root}/{to.folder}"
        text = f"{where} is a link that leads out of the letters' folder"
        raise BlockedError(text, code="state_linked", fix=[f"rm {argument(where)}"])
    moved = table.place(store, row, to, names_for(mail, row.name))
    if moved is None:
        raise gone(row.name)
    return follow_file(store, mail, row, moved)


def follow_file(store: Store, mail: MailLayout, before: LetterRow, after: LetterRow) -> LetterRow:
    """Rename a letter's file to where the store says it is now."""
    folder = mail.root / after.folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        name = atomic.move(path(mail, before), folder, names_for(mail, after.name))
    except FileNotFoundError as error:
        # Somebody else's look may have taken this for a move that a kill cut off, and made it.
        for now_at in table.with_id(store, after.letter_id or 0):
            if path(mail, now_at).exists():
                return now_at
        table.forget(store, [after])
        raise gone(before.name) from error
    if name != after.name:
        table.place(store, after, of_folder(after.folder), iter((name,)))
    return after._replace(name=name)


def give_back(store: Store, mail: MailLayout, now: datetime, *, expired: bool = False) -> None:
    """Put work letters back whose task was released or taken over; `expired`: or may be.

    The rows of tasks say so, so that a kill only puts it off. Work that is done goes to the LOGS.
    """
    for row in table.finished(store):
        with contextlib.suppress(NotFoundError):
            move_letter(store, mail, row, logs(row.agent))
    for row in table.released(store, utc(now) if expired else ""):
        with contextlib.suppress(NotFoundError):  # somebody else has moved it
            move_letter(store, mail, row._replace(claim_id=None), NEW)


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
    since, began = adopted_at(marks, mail), _adoption(mail)
    found = [_look(store, mail, folder) for folder in stale if folder != TASKS]
    young: set[str] = set()
    for look in found:
        said += _take_in(store, mail, look, began.mtime_ns if since is None else since, young)
    # Only now: what vanished here may have been moved there.
    if gone := [row for look in found for row in _still_gone(store, mail, look)]:
        table.forget(store, gone)
    vanished = {look.seen.folder for look in found} - set(letter_folders(mail))
    seen = [look.seen for look in found if look.seen.folder not in vanished]
    # Where a file may still be being written, the next look looks again.
    seen = [row._replace(mtime_ns=0) if row.folder in young else row for row in seen]
    table.mark(store, [*([began] if since is None else []), *seen], sorted(vanished))
    return said


def letter_paths(mail: MailLayout) -> Iterator[str]:
    """Yield every letter's path below the mail's root."""
    for folder in letter_folders(mail):
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


def _take_in(
    store: Store, mail: MailLayout, look: _Found, since: int, young: set[str]
) -> list[str]:
    said: list[str] = []
    rows: list[LetterRow] = []
    for name in look.new:
        if not (name.isprintable() and _moved(store, mail, look.seen.folder, name)):
            rows += _first_sight(mail, look.seen.folder, name, said, since, young)
    if rows:
        table.insert(store, rows)
    return said


def _moved(store: Store, mail: MailLayout, folder: str, name: str) -> bool:
    """Recognise a letter that is known from elsewhere and has left there."""
    for known in table.named(store, name):
        if path(mail, known).exists() or known.folder == folder:
            continue
        # A file that was moved since then is where somebody wants it; its row follows, and with
        # work its task: put into a folder it is claimed, put back it is released. Any other was
        # left behind by a kill, or is about to be moved.
        file = mail.root / folder / name
        if lay_there(file, known.moved_ns):
            follow_file(store, mail, known._replace(folder=folder), known)
        elif os.path.lexists(file):
            to = of_folder(folder)
            again = to.box in ("new", "inbox") and known.intent in WORK
            table.place(store, known._replace(pending=again), to, iter((name,)))
        return True
    return False


def _first_sight(
    mail: MailLayout, folder: str, name: str, said: list[str], since: int, young: set[str]
) -> list[LetterRow]:
    path, where = mail.root / folder / name, of_folder(folder)
    live = where.box in ("new", "inbox")
    try:
        letter = read_letter(path)
    except FormatError as error:
        is_theirs = mail.root.parent.name != HOME_NAME and lay_there(path, since)
        if live and _is_young(path):
            young.add(folder)
        elif live:
            stays = f"{folder}/{name} is not a letter and stays there: {error.message}"
            said.append(stays if is_theirs else _set_aside(mail, path, error.message))
        return []
    is_open = live or (where.box == "workspace" and letter.intent in WORK and letter.task_id)
    found = entry_row(letter, where, name, pending=bool(is_open) and has_effect(letter))
    is_copy = where.box == "inbox" and is_broadcast(letter) and not found.copy_of
    # Put there by somebody else.
    return [found._replace(copy_of=name, pending=False) if is_copy else found]


def _is_young(path: Path) -> bool:
    try:
        return abs(time.time_ns() - path.lstat().st_mtime_ns) < _YOUNG
    except OSError:
        return True


def _set_aside(mail: MailLayout, path: Path, reason: str) -> str:
    mail.quarantine.mkdir(parents=True, exist_ok=True)
    name = atomic.move(path, mail.quarantine, names_for(mail, path.name))
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
    own = (box(mail, row.agent).folder for box in (inbox, workspace) if row.agent)
    folders = (NEW_MESSAGES, *own, LOGS, row.folder)
    return any((mail.root / folder / row.name).exists() for folder in folders)
