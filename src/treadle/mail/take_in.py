"""Take letters into the index that others wrote, moved or removed; their effects come later."""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.errors import FormatError
from treadle.files import deliver
from treadle.layout import LOGS, NEW_MESSAGES, MailLayout, inbox_name, workspace_name
from treadle.mail import folders, intent, kind, move, place
from treadle.mail.entry import row
from treadle.mail.name import numbered
from treadle.mail.read import read
from treadle.store import letters as index
from treadle.store.letters import FolderRow, LetterRow
from treadle.store.store import Store

# A file that is no letter yet may still be being written.
_YOUNG = 2_000_000_000
_BATCH = 1000


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
    found = [_look(store, mail, folder) for folder in stale if folder != folders.TASKS]
    for look in found:
        said += _take_in(store, mail, look)
    # Only now: what vanished here may have been moved there.
    if gone := [row for look in found for row in _still_gone(store, mail, look)]:
        index.forget(store, gone)
    vanished = sorted(set(marks) - set(folders.every(mail)))
    index.mark(store, [look.seen for look in found], vanished)
    return said


def letters(mail: MailLayout) -> Iterator[str]:
    """Yield every letter's path below the mail's root."""
    for folder in folders.every(mail):
        if folder != folders.TASKS:
            yield from (f"{folder}/{name}" for name in _letters(mail.root / folder))


def _look(store: Store, mail: MailLayout, folder: str) -> _Found:
    seen = FolderRow(folder, folders.dated(mail.root / folder), time.time_ns())
    known = index.names_in(store, folder)
    there = set(_letters(mail.root / folder))
    gone = [
        found for name in known if name not in there if (found := index.at(store, folder, name))
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
        if len(rows) >= _BATCH:
            index.insert(store, rows)
            rows = []
    if rows:
        index.insert(store, rows)
    return said


def _moved(store: Store, mail: MailLayout, folder: str, name: str) -> bool:
    """Recognise a letter that is known from elsewhere and has left there."""
    for known in index.named(store, name):
        if place.path(mail, known).exists() or known.folder == folder:
            continue
        if folder == NEW_MESSAGES and known.box != "new":
            # Claimed, and the claimant was cut off before the file followed.
            move.follow(store, mail, known._replace(folder=folder), known)
        else:
            to = place.of_folder(folder)
            again = to.box == "inbox" and known.intent in intent.WORK
            index.place(store, known._replace(pending=again), to, iter((name,)))
        return True
    return False


def _first_sight(mail: MailLayout, folder: str, name: str, said: list[str]) -> list[LetterRow]:
    path, where = mail.root / folder / name, place.of_folder(folder)
    try:
        letter = read(path)
    except FileNotFoundError:
        return []
    except FormatError as error:
        if where.box in ("new", "inbox") and not _is_young(path):
            said.append(_set_aside(mail, path, error.message))
        return []
    live = where.box in ("new", "inbox")
    found = row(letter, where, name, pending=live and kind.has_effect(letter))
    is_copy = where.box == "inbox" and kind.is_broadcast(letter)
    return [found._replace(copy_of=name, pending=False) if is_copy else found]


def _is_young(path: Path) -> bool:
    try:
        return abs(time.time_ns() - path.lstat().st_mtime_ns) < _YOUNG
    except OSError:
        return True


def _set_aside(mail: MailLayout, path: Path, reason: str) -> str:
    mail.quarantine.mkdir(parents=True, exist_ok=True)
    name = deliver.move(path, mail.quarantine, numbered(path.name))
    document = {"file": f"{path.parent.relative_to(mail.root)}/{path.name}", "reason": reason}
    aside = mail.quarantine / f"{name}.reason.json"
    aside.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    return f"{path.name} was set aside in LOGS/quarantine: {reason}"


def _still_gone(store: Store, mail: MailLayout, look: _Found) -> Iterator[LetterRow]:
    """Yield what is nowhere; a letter on its way is still, or already, at one of its places."""
    for known in look.gone:
        now_at = index.at(store, known.folder, known.name)
        if now_at and not (_is_somewhere(mail, now_at) or _is_somewhere(mail, now_at)):
            yield now_at


def _is_somewhere(mail: MailLayout, row: LetterRow) -> bool:
    own = (inbox_name(row.agent), workspace_name(row.agent)) if row.agent else ()
    folders = (NEW_MESSAGES, *own, LOGS, row.folder)
    return any((mail.root / folder / row.name).exists() for folder in folders)
