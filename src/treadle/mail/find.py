"""Find letters by name, box, task or words, wait for them, and tell programs about them."""

import contextlib
import re
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from treadle.errors import FormatError, NotFoundError, UsageError
from treadle.ids import EVERYBODY, hint
from treadle.layout import BOXES as BOXES
from treadle.layout import Layout, MailLayout
from treadle.mail import effect, index
from treadle.mail.letter import WORK, Letter, read_letter, read_text
from treadle.store import letters as table
from treadle.store.letters import LetterRow
from treadle.store.store import Reader

OPEN = BOXES[:3]


class LetterQuery(NamedTuple):
    """Which letters are wanted."""

    agent: str | None = None
    boxes: Sequence[str] = OPEN
    task_id: str | None = None
    intent: str | None = None
    limit: int = 50


def list_letters(store: Reader, asked: LetterQuery) -> list[LetterRow]:
    """Return the newest letters that are wanted."""
    if asked.task_id:
        rows = [row for row in table.of_task(store, asked.task_id) if row.box in asked.boxes]
        rows = [row for row in rows if asked.agent is None or _concerns(row, asked.agent)]
        return _newest((row for row in rows if asked.intent in (None, row.intent)), asked.limit)
    found: list[LetterRow] = []
    for box in asked.boxes:
        found += _in_box(store, box, asked)
    return _newest(found, asked.limit)


def find_letter(store: Reader, text: str, agent: str | None = None) -> LetterRow:
    """Return the letter of this name, path or id; of copies, the agent's own."""
    folder, _, name = text.rpartition("/")
    found = table.named(store, name) or table.named(store, f"{name}.md")
    found = found or table.with_message_id(store, text)
    best = [row for row in found if folder and f"/{row.folder}".endswith(_tail(folder))]
    mine = [row for row in found if agent and row.agent == agent and row.box != "logs"]
    if not found:
        raise _unknown(store, name)
    return (best or mine or found)[0]


def open_letter(mail: MailLayout, row: LetterRow) -> Letter:
    """Read a letter that was found."""
    path = index.path(mail, row)
    if not path.exists():
        raise index.gone(row.name)
    return read_letter(path)


def waiting(store: Reader, agent: str | None) -> list[LetterRow]:
    """Return what an agent has not taken yet: letters to it, work for all, its copies."""
    if agent is None:
        return table.in_box(store, "new", 50)
    new = [*table.to_agent(store, agent, 50), *_work_for_all(store, agent)]
    held = table.held(store, agent, "inbox", 50)
    return _newest([*new, *(row for row in held if row.copy_of)], 50)


def _in_box(store: Reader, box: str, asked: LetterQuery) -> list[LetterRow]:
    """Read page after page until enough letters match."""
    found: list[LetterRow] = []
    before = None
    while True:
        page = _page(store, box, asked, before)
        found += [row for row in page if asked.intent in (None, row.intent)]
        if len(page) < asked.limit or len(found) >= asked.limit:
            return found
        before = (page[-1].created_at, page[-1].letter_id or 0)


def _page(
    store: Reader, box: str, asked: LetterQuery, before: tuple[str, int] | None
) -> list[LetterRow]:
    if asked.agent is None:
        return table.in_box(store, box, asked.limit, before)
    if box != "new":
        return table.held(store, asked.agent, box, asked.limit, before)
    to_me = table.to_agent(store, asked.agent, asked.limit, before)
    to_all = table.to_agent(store, EVERYBODY, asked.limit, before)
    return _newest([*to_me, *to_all], asked.limit)


def _work_for_all(store: Reader, agent: str) -> list[LetterRow]:
    rows = table.to_agent(store, EVERYBODY, 50)
    return [row for row in rows if row.intent in WORK and row.sender != agent]


def _concerns(row: LetterRow, agent: str) -> bool:
    return agent in (row.recipient, row.agent, row.sender) or row.recipient == EVERYBODY


def _newest(rows: Iterable[LetterRow], limit: int) -> list[LetterRow]:
    order = sorted(rows, key=lambda row: (row.created_at, row.letter_id or 0), reverse=True)
    return order[:limit]


def _tail(folder: str) -> str:
    """Return the end of a path that a folder of letters can have."""
    parts = folder.strip("/").split("/")
    return "/" + "/".join(parts[-3:] if parts[-1] in ("INBOX", "WORKSPACE") else parts[-1:])


def _unknown(store: Reader, name: str) -> NotFoundError:
    known = [row.name for box in BOXES for row in table.in_box(store, box, 50)]
    text = f"there is no letter {name[:200]}{hint(name[:200], known)}"
    return NotFoundError(text, fix=["treadle mail list"])


_PAGE = 500


def search(store: Reader, mail: MailLayout, words: Sequence[str], limit: int) -> list[LetterRow]:
    """Return the newest letters that have all the words, whole and in any case."""
    wanted = [_whole_word(word) for item in words for word in item.split()]
    if not wanted:
        raise UsageError("say which words to search for", fix=["treadle mail search WORD"])
    found: list[LetterRow] = []
    last = 0
    while page := table.after(store, last, _PAGE):
        last = page[-1].letter_id or 0
        for row in page:
            text = _text(mail, row)
            if all(word.search(text) for word in wanted):
                found.append(row)
    return found[::-1][:limit]


def _whole_word(word: str) -> re.Pattern[str]:
    bare = re.sub(r"^\W+|\W+$", "", word)
    whole = rf"(?<!\w){re.escape(bare)}(?!\w)" if bare else re.escape(word)
    return re.compile(whole, re.IGNORECASE)


def _text(mail: MailLayout, row: LetterRow) -> str:
    """Return a letter with its name; one that is gone has no words."""
    with contextlib.suppress(FormatError):
        return f"{row.name}\n{read_text(index.path(mail, row))}"
    return ""


_PAUSE = 0.1


def watch(
    layout: Layout, agent: str | None, timeout: float | None, now: Callable[[], datetime]
) -> list[LetterRow]:
    """Return what waits for an agent, or for anyone, as soon as there is something.

    Without an agent only letters count that arrive after the call. A glance at the folders'
    times is all that a round costs.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with contextlib.closing(_looks(layout, now)) as looks:
        seen = waiting(next(looks), None) if agent is None else []
        known = {row.letter_id for row in seen}
        for reader in looks:
            found = [row for row in waiting(reader, agent) if row.letter_id not in known]
            if found or (deadline is not None and time.monotonic() >= deadline):
                break
            time.sleep(_PAUSE)
    return found


def _looks(layout: Layout, now: Callable[[], datetime]) -> Generator[Reader, None, None]:
    """Yield the store again and again, with every letter in it."""
    reader = Reader.open(layout)
    try:
        while True:
            if index.is_stale(reader, layout.mail):
                reader.close()
                store, _ = effect.fresh(layout, now())
                store.close()
                reader = Reader.open(layout)
            yield reader
    finally:
        reader.close()


def list_document(layout: Layout, rows: Sequence[LetterRow]) -> dict[str, object]:
    """Return a list of letters."""
    return {"letters": [brief_document(layout, row) for row in rows]}


def brief_document(layout: Layout, row: LetterRow) -> dict[str, object]:
    """Return where one letter lies and what its headers say."""
    return {
        "file": f"{layout.shown(layout.mail.root)}/{row.folder}/{row.name}",
        "message_id": row.message_id,
        "from": row.sender,
        "to": row.recipient,
        "intent": row.intent,
        "task_id": row.task_id,
        "status": row.status,
        "created_at": row.created_at,
        "box": row.box,
        "holder": row.agent,
        "summary": row.summary,
    }


def whole_document(layout: Layout, row: LetterRow, letter: Letter) -> dict[str, object]:
    """Return one letter with all its words."""
    return brief_document(layout, row) | {"headers": dict(letter.extra), "body": letter.body}
