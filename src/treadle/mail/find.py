"""Find letters by name, box, task or words, wait for them, and tell programs about them."""

import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from treadle.errors import FormatError, NotFoundError, UsageError, argument
from treadle.ids import EVERYBODY, hint
from treadle.layout import BOXES as BOXES
from treadle.layout import Layout, MailLayout
from treadle.mail import effect, index
from treadle.mail.letter import (
    WORK,
    Letter,
    addressees,
    format_time,
    read_letter,
    read_text,
    registered_agents,
)
from treadle.store import letters as table
from treadle.store.letters import LetterRow
from treadle.store.store import Reader, Store
from treadle.tasks.claim import is_held

OPEN = BOXES[:3]


class LetterQuery(NamedTuple):
    """Which letters are wanted."""

    agent: str | None = None
    boxes: Sequence[str] = OPEN
    task_id: str | None = None
    intent: str | None = None
    limit: int = 50


class FoundLetters(NamedTuple):
    """The letters to show, and how many there are."""

    rows: list[LetterRow]
    total: int


def list_letters(store: Reader, asked: LetterQuery) -> FoundLetters:
    """Return the newest letters that are wanted."""
    if asked.task_id:
        rows = [row for row in table.of_task(store, asked.task_id) if _fits(row, asked)]
        rows = [row for row in rows if asked.agent is None or _concerns(row, asked.agent)]
        return FoundLetters(_newest(rows, asked.limit), len(rows))
    # What was not given out yet to several is for each whom it names.
    several = (row for row in table.pending(store) if row.box == "new" and "," in row.recipient)
    rows = [it for it in several if _fits(it, asked) and asked.agent in addressees(it.recipient)]
    total = len(rows)
    for box in asked.boxes:
        for agent in _addresses(box, asked.agent):
            found = table.page(store, box, asked.limit, agent, asked.intent)
            is_whole = len(found) < asked.limit
            total += len(found) if is_whole else table.count(store, box, agent, asked.intent)
            rows += found
    return FoundLetters(_newest(rows, asked.limit), total)


def find_letter(store: Reader, text: str, agent: str | None = None) -> LetterRow:
    """Return the one letter of this name, path or id; of copies, the agent's own."""
    folder, _, name = text.rpartition("/")
    found = table.named(store, name) or table.named(store, f"{name}.md")
    found = found or table.with_message_id(store, text)
    if not found:
        raise _unknown(store, name)
    there = [row for row in found if folder and f"/{row.folder}".lower().endswith(_tail(folder))]
    copies = [*found, *(copy for row in found for copy in table.copies(store, row.name))]
    copies = [row for row in copies if row.copy_of and row.box != "logs"]
    mine = {row for row in copies if agent and agent in (row.agent, row.recipient)}
    best = there or list(mine) or [row for row in found if row.copy_of is None] or found
    if len(best) > 1:
        raise _ambiguous(name, best)
    return best[0]


def open_letter(mail: MailLayout, row: LetterRow) -> Letter:
    """Read a letter that was found."""
    path = index.path(mail, row)
    if not path.exists():
        raise index.gone(row.name)
    return read_letter(path)


def thread(store: Reader, row: LetterRow) -> FoundLetters:
    """Return a letter with all that it answers and that answer it, oldest first; no copies."""
    found: dict[int | None, LetterRow] = {}
    left = [row]
    while left:
        here = left.pop()
        if here.letter_id not in found:
            found[here.letter_id] = here
            names = {here.message_id, here.in_reply_to, here.thread_id, here.name} - {None}
            left += (other for name in names for other in table.that_refer(store, str(name)))
    rows = [it for it in found.values() if it.copy_of is None or it == row]
    rows.sort(key=lambda it: (it.created_at, it.letter_id or 0))
    return FoundLetters(rows, len(rows))


class AgentSeen(NamedTuple):
    """Somebody who takes part: when they last acted, what waits for them, what they hold."""

    agent: str
    last_seen: str | None
    unread: int
    leases: list[dict[str, str | None]]


def agents(store: Reader, mail: MailLayout, now: datetime) -> list[AgentSeen]:
    """Return everybody who has folders."""
    # Letters are dated to the second, and as text a whole second comes after its fractions.
    seen, unread = table.seen(store, format_time(now)), dict(table.unread(store))
    leases: dict[str | None, list[dict[str, str | None]]] = defaultdict(list)
    for row in store.tasks():
        if is_held(row, now):
            leases[row.owner].append({"task_id": row.task_id, "until": row.lease_until})
    names = registered_agents(mail)
    return [AgentSeen(it, seen.get(it), unread.get(it, 0), leases[it]) for it in names]


def waiting(store: Reader, agent: str | None) -> list[LetterRow]:
    """Return what an agent has not taken yet: letters to it, work for all, its copies."""
    new = list_letters(store, LetterQuery(agent, ("new",))).rows
    if agent is None:
        return new
    mine = [row for row in new if agent in addressees(row.recipient)]
    work = [row for row in new if row.recipient == EVERYBODY and row.intent in WORK]
    copies = [row for row in table.page(store, "inbox", 50, agent) if row.copy_of]
    return _newest([*mine, *(row for row in work if row.sender != agent), *copies], 50)


def _addresses(box: str, agent: str | None) -> Sequence[str | None]:
    return (agent, EVERYBODY) if agent and box == "new" else (agent,)


def _fits(row: LetterRow, asked: LetterQuery) -> bool:
    return row.box in asked.boxes and asked.intent in (None, row.intent)


def _concerns(row: LetterRow, agent: str) -> bool:
    return not {agent, EVERYBODY}.isdisjoint((*addressees(row.recipient), row.agent, row.sender))


def _newest(rows: Iterable[LetterRow], limit: int) -> list[LetterRow]:
    """Return the most urgent rows, of each kind the newest first."""
    order = sorted(rows, key=lambda row: (row.created_at, row.letter_id or 0), reverse=True)
    return sorted(order, key=lambda row: row.rank)[:limit]


def _tail(folder: str) -> str:
    """Return the end of a path that a folder of letters can have."""
    parts = folder.strip("/").lower().split("/")
    return "/" + "/".join(parts[-3:] if parts[-1] in ("inbox", "workspace") else parts[-1:])


def _ambiguous(name: str, rows: Sequence[LetterRow]) -> UsageError:
    paths = [f"{row.folder}/{row.name}" for row in rows]
    return UsageError(
        f"several letters are called {name}: {', '.join(paths)}; say which by its folder",
        code="letter_ambiguous",
        fix=[f"treadle mail read {argument(path)}" for path in paths],
    )


def _unknown(store: Reader, name: str) -> NotFoundError:
    known = [row.name for box in BOXES for row in table.page(store, box, 50)]
    text = f"there is no letter {name[:200]}{hint(name[:200], known)}"
    return NotFoundError(text, fix=["treadle mail list"])


_PAGE = 500


def search(store: Reader, mail: MailLayout, words: Sequence[str], limit: int) -> FoundLetters:
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
    return FoundLetters(found[::-1][:limit], len(found))


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
) -> Iterator[list[LetterRow]]:
    """Yield what waits for an agent, or for anyone, whenever there is something new.

    Without an agent only letters count that arrive after the call. A glance at the folders'
    times is all that a round costs.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with Store.open(layout) as store:
        effect.refresh(store, layout.mail, now(), reading=True)
        known = {row.letter_id for row in waiting(store, None)} if agent is None else set()
        while True:
            found = [row for row in waiting(store, agent) if row.letter_id not in known]
            if found:
                yield found
                known |= {row.letter_id for row in found}
            elif deadline is not None and time.monotonic() >= deadline:
                return
            time.sleep(_PAUSE)
            effect.refresh(store, layout.mail, now(), reading=True)


def list_document(layout: Layout, found: FoundLetters) -> dict[str, object]:
    """Return a list of letters, and whether it is all of them."""
    letters = [brief_document(layout, row) for row in found.rows]
    return {"letters": letters, "total": found.total, "more": found.total > len(letters)}


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
