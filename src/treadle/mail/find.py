"""Find letters by name, box, task or words, wait for them, and tell programs about them."""

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Sequence
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
from treadle.store.store import Reader, Store

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
    return _newest((row for box in asked.boxes for row in _in_box(store, box, asked)), asked.limit)


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
    new = _in_box(store, "new", LetterQuery(agent))
    if agent is None:
        return new
    mine = [row for row in new if row.recipient == agent]
    work = [row for row in new if row.recipient == EVERYBODY and row.intent in WORK]
    copies = [row for row in table.page(store, "inbox", 50, agent) if row.copy_of]
    return _newest([*mine, *(row for row in work if row.sender != agent), *copies], 50)


def _in_box(store: Reader, box: str, asked: LetterQuery) -> list[LetterRow]:
    found = table.page(store, box, asked.limit, asked.agent, asked.intent)
    if asked.agent and box == "new":
        found += table.page(store, box, asked.limit, EVERYBODY, asked.intent)
    return found


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
    known = [row.name for box in BOXES for row in table.page(store, box, 50)]
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
    with Store.open(layout) as store:
        effect.refresh(store, layout.mail, now())
        known = {row.letter_id for row in waiting(store, None)} if agent is None else set()
        while True:
            found = [row for row in waiting(store, agent) if row.letter_id not in known]
            if found or (deadline is not None and time.monotonic() >= deadline):
                return found
            time.sleep(_PAUSE)
            effect.refresh(store, layout.mail, now())


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
