"""Find letters: by name, by box, by words."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from treadle.errors import NotFoundError
from treadle.ids import hint
from treadle.layout import BOXES as BOXES
from treadle.layout import MailLayout
from treadle.mail import address, intent, place
from treadle.mail.letter import Letter
from treadle.mail.read import read
from treadle.store import letters as index
from treadle.store.letters import LetterRow
from treadle.store.store import Reader

OPEN = BOXES[:3]


class Asked(NamedTuple):
    """Which letters are wanted."""

    agent: str | None = None
    boxes: Sequence[str] = OPEN
    task_id: str | None = None
    intent: str | None = None
    limit: int = 50


def letters(store: Reader, asked: Asked) -> list[LetterRow]:
    """Return the newest letters that are wanted."""
    if asked.task_id:
        rows = [row for row in index.of_task(store, asked.task_id) if row.box in asked.boxes]
        rows = [row for row in rows if asked.agent is None or _concerns(row, asked.agent)]
        return _newest((row for row in rows if asked.intent in (None, row.intent)), asked.limit)
    found: list[LetterRow] = []
    for box in asked.boxes:
        found += _in_box(store, box, asked)
    return _newest(found, asked.limit)


def find(store: Reader, text: str, agent: str | None = None) -> LetterRow:
    """Return the letter of this name, path or id; of copies, the agent's own."""
    folder, _, name = text.rpartition("/")
    found = index.named(store, name) or index.named(store, f"{name}.md")
    found = found or index.with_message_id(store, text)
    best = [row for row in found if folder and f"/{row.folder}".endswith(_tail(folder))]
    mine = [row for row in found if agent and row.agent == agent and row.box != "logs"]
    if not found:
        raise _unknown(store, name)
    return (best or mine or found)[0]


def open_letter(mail: MailLayout, row: LetterRow) -> Letter:
    """Read a letter that was found."""
    try:
        return read(place.path(mail, row))
    except FileNotFoundError as error:
        raise place.gone(row.name) from error


def waiting(store: Reader, agent: str | None) -> list[LetterRow]:
    """Return what an agent has not taken yet: letters to it, work for all, its copies."""
    if agent is None:
        return index.in_box(store, "new", 50)
    new = [*index.to_agent(store, agent, 50), *_work_for_all(store, agent)]
    held = index.held(store, agent, "inbox", 50)
    return _newest([*new, *(row for row in held if row.copy_of)], 50)


def _in_box(store: Reader, box: str, asked: Asked) -> list[LetterRow]:
    """Read page after page until enough letters match."""
    found: list[LetterRow] = []
    before = None
    while True:
        page = _page(store, box, asked, before)
        found += [row for row in page if asked.intent in (None, row.intent)]
        if len(page) < asked.limit or len(found) >= asked.limit:
            return found
        before = (page[-1].created_at, page[-1].letter_id or 0)


def _page(store: Reader, box: str, asked: Asked, before: tuple[str, int] | None) -> list[LetterRow]:
    if asked.agent is None:
        return index.in_box(store, box, asked.limit, before)
    if box != "new":
        return index.held(store, asked.agent, box, asked.limit, before)
    to_me = index.to_agent(store, asked.agent, asked.limit, before)
    to_all = index.to_agent(store, address.ALL, asked.limit, before)
    return _newest([*to_me, *to_all], asked.limit)


def _work_for_all(store: Reader, agent: str) -> list[LetterRow]:
    rows = index.to_agent(store, address.ALL, 50)
    return [row for row in rows if row.intent in intent.WORK and row.sender != agent]


def _concerns(row: LetterRow, agent: str) -> bool:
    return agent in (row.recipient, row.agent, row.sender) or row.recipient == address.ALL


def _newest(rows: Iterable[LetterRow], limit: int) -> list[LetterRow]:
    order = sorted(rows, key=lambda row: (row.created_at, row.letter_id or 0), reverse=True)
    return order[:limit]


def _tail(folder: str) -> str:
    """Return the end of a path that a folder of letters can have."""
    parts = folder.strip("/").split("/")
    return "/" + "/".join(parts[-3:] if parts[-1] in ("INBOX", "WORKSPACE") else parts[-1:])


def _unknown(store: Reader, name: str) -> NotFoundError:
    known = [row.name for box in BOXES for row in index.in_box(store, box, 50)]
    text = f"there is no letter {name[:200]}{hint(name[:200], known)}"
    return NotFoundError(text, fix=["treadle mail list"])
