"""Where letters lie, what their headers say, who claimed them and how they are searched.

Files are the truth; this is an index of them.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from treadle.store.transaction import COLUMNS, Reading, Writing, change, count_up, kept_in

# How urgent a letter is that waits: 0 is the most.
NORMAL = 2
# What a letter can ask to be done; a query says `{work}`.
WORK = ("implement_feature", "fix_bug", "refactor", "review_code", "test", "audit", "document")
COLUMNS["work"] = ", ".join(f"'{intent}'" for intent in WORK)
COLUMNS["of_intent"] = "(CAST(:intent AS TEXT) IS NULL OR intent = :intent)"
COLUMNS["in_box"] = "FROM mail_index WHERE box = :box AND {of_intent}".format_map(COLUMNS)
COLUMNS["sent_to"] = f"{COLUMNS['in_box']} AND recipient = :agent"
COLUMNS["held_by"] = f"{COLUMNS['in_box']} AND agent = :agent"


@kept_in("mail_index", pending=bool)
class LetterRow(NamedTuple):
    """Where one letter lies and what its headers say; `pending` while its effect is not made.

    `moved_ns` is when the row was last moved; the file follows.
    """

    letter_id: int | None
    box: str
    agent: str | None
    folder: str
    name: str
    sender: str
    recipient: str
    intent: str
    task_id: str | None
    status: str
    created_at: str
    message_id: str | None
    in_reply_to: str | None
    expires_at: str | None
    summary: str
    claim_id: str | None = None
    copy_of: str | None = None
    question_id: str | None = None
    pending: bool = False
    moved_ns: int = 0
    rank: int = NORMAL
    thread_id: str | None = None
    ack_by: str | None = None
    moved_at: str | None = None


@kept_in("mail_folders")
class FolderRow(NamedTuple):
    """How a folder of letters looked when it was last read."""

    folder: str
    mtime_ns: int
    seen_ns: int


class BoxFolder(NamedTuple):
    """Where a letter lies: in which kind of box, whose, and in which folder."""

    box: str
    agent: str | None
    folder: str


def at(store: Reading, folder: str, name: str) -> LetterRow | None:
    """Return the letter that is said to lie there."""
    return store.first(LetterRow, "letter_at", folder=folder, file=name)


def with_id(store: Reading, letter_id: int) -> list[LetterRow]:
    """Return the letter with this number, if it is still there."""
    return _rows(store, "letter", letter_id=letter_id)


def named(store: Reading, name: str) -> list[LetterRow]:
    """Return the letters of this name, copies last."""
    return _rows(store, "letters_named", file=name)


def with_message_id(store: Reading, message_id: str) -> list[LetterRow]:
    """Return the letters with this id, copies last."""
    return _rows(store, "letters_with_message_id", message_id=message_id)


def page(
    store: Reading, box: str, limit: int, agent: str | None = None, intent: str | None = None
) -> list[LetterRow]:
    """Return the newest letters in the boxes of a kind, or in an agent's; new ones are to it."""
    query = f"letters_{_listed(box, agent)}"
    return _rows(store, query, box=box, limit=limit, agent=agent, intent=intent)


def count(store: Reading, box: str, agent: str | None = None, intent: str | None = None) -> int:
    """Return how many letters there are for `page` to show."""
    found = store.one(f"count_{_listed(box, agent)}", box=box, agent=agent, intent=intent)
    return int(found[0]) if found else 0


def _listed(box: str, agent: str | None) -> str:
    return "in_box" if agent is None else "sent_to" if box == "new" else "held_by"


def older(store: Reading, folder: str, before: str) -> list[LetterRow]:
    """Return the letters of a folder that were written before this, newest first."""
    return _rows(store, "letters_older", folder=folder, before=before)


def unread(store: Reading) -> list[tuple[str, int]]:
    """Return how many letters wait for each address."""
    found = Counter[str]()
    for agent, count in store.all("letters_unread"):
        found[agent] += int(count)
    return sorted(found.items())


def seen(store: Reading, now: str) -> dict[str, str]:
    """Return when each agent last wrote, claimed, acknowledged or moved a task."""
    return {agent: at for agent, at in store.all("agents_seen", now=now) if agent}


def that_refer(store: Reading, reference: str) -> list[LetterRow]:
    """Return the letters that a message id or a name stands for, or that refer to it."""
    return _rows(store, "letters_that_refer", reference=reference)


def overdue(store: Reading, now: str) -> list[LetterRow]:
    """Return the letters that should have been acknowledged, and of which nobody was told."""
    return _rows(store, "letters_overdue", now=now)


def reminded(store: Writing, row: LetterRow) -> None:
    """Say that somebody was told of an overdue letter."""
    store.execute("letter_reminded", {"letter_id": row.letter_id})


def of_task(store: Reading, task_id: str) -> list[LetterRow]:
    """Return every letter about a task, oldest first."""
    return _rows(store, "letters_of_task", task_id=task_id)


def wait_elsewhere(store: Reading) -> bool:
    """Tell whether runs that ended on other machines have letters to send."""
    return bool(store.all("runs_with_letters"))


def asker(store: Reading, task_id: str) -> str | None:
    """Return who wrote the first letter that asks for a task's work; runs only tell of it."""
    found = store.first(LetterRow, "letters_that_ask", task_id=task_id)
    return found.sender if found else None


def asked(store: Reading, task_id: str) -> str | None:
    """Return what the first letter says that asks for a task's work."""
    found = store.first(LetterRow, "letters_that_ask", task_id=task_id)
    return found.summary if found else None


def of_question(store: Reading, question_id: str) -> list[LetterRow]:
    """Return the letters that put a question on the desk."""
    return _rows(store, "letters_answered_by", question_id=question_id)


def copies(store: Reading, name: str) -> list[LetterRow]:
    """Return the copies of a letter to all."""
    return _rows(store, "copies_of", file=name)


def released(store: Reading, expired_at: str) -> list[LetterRow]:
    """Return claimed work letters whose task is nobody's or another's, or has expired by then."""
    return _with_task(_rows(store, "released_letters", expired_at=expired_at))


def finished(store: Reading) -> list[LetterRow]:
    """Return claimed work letters whose task is done."""
    return _with_task(_rows(store, "finished_letters"))


def _with_task(rows: list[LetterRow]) -> list[LetterRow]:
    """Leave letters out that were claimed without their task."""
    return [row for row in rows if row.claim_id != f"{row.agent}-{row.letter_id}"]


def tie(store: Writing, letter_id: int, claim_id: str | None) -> None:
    """Say by which claim a letter is held."""
    store.execute("tie_letter", {"letter_id": letter_id, "claim_id": claim_id})


def answers(store: Reading, row: LetterRow) -> bool:
    """Tell whether another letter answers this one."""
    return bool(store.all("letters_in_reply", message_id=row.message_id, file=row.name))


def pending(store: Reading) -> list[LetterRow]:
    """Return the letters whose effect has not been made."""
    return _rows(store, "letters_pending")


def after(store: Reading, letter_id: int, limit: int) -> list[LetterRow]:
    """Return letters in the order in which they were first seen."""
    return _rows(store, "letters_between", after=letter_id, limit=limit)


def names_in(store: Reading, folder: str) -> dict[str, int]:
    """Return the letters that are said to lie in a folder."""
    return {name: id_ for id_, name in store.all("letters_in_folder", folder=folder)}


def last_moved(store: Reading) -> int:
    """Return when a letter was last moved; 0 if none was."""
    found = store.one("last_moved_letter")
    return found[0] or 0 if found else 0


def folders(store: Reading) -> dict[str, FolderRow]:
    """Return how every folder looked when it was last read."""
    return {row.folder: row for row in store.records(FolderRow, "mail_folders")}


@change
def insert(tx: Writing, rows: Sequence[LetterRow]) -> None:
    """Add letters that were found; one that is known already stays as it is."""
    # A number of its own for each, never given again: who read up to one has read all before it.
    for row in rows:
        numbered = row._replace(letter_id=count_up(tx, "letter"))
        tx.execute("insert_letter", numbered)


def forget(store: Writing, gone: Sequence[LetterRow]) -> None:
    """Drop letters whose files are gone, unless they have moved meanwhile."""
    store.executemany("forget_letter", [row._asdict() for row in gone])


@change
def mark(tx: Writing, seen: Sequence[FolderRow], gone: Sequence[str] = ()) -> None:
    """Remember how folders looked."""
    tx.executemany("mark_folder", seen)
    tx.executemany("forget_folder", [{"folder": folder} for folder in gone])


def settle(store: Writing, letter_id: int, question_id: str | None = None) -> None:
    """Say that a letter's effect is made."""
    store.execute("settle_letter", {"letter_id": letter_id, "question_id": question_id})


@change
def place(tx: Writing, row: LetterRow, to: BoxFolder, names: Iterator[str]) -> LetterRow | None:
    """Say that a letter lies elsewhere now; None when somebody else moved it before."""
    name = next((name for name in names if at(tx, to.folder, name) is None), None)
    if name is None:
        return None
    rank = NORMAL if to.box == "logs" else row.rank
    moved = row._replace(box=to.box, agent=to.agent, folder=to.folder, name=name, rank=rank)
    moved = moved._replace(moved_ns=time.time_ns())
    values = moved._asdict() | {"seen_folder": row.folder, "seen_name": row.name}
    return moved if tx.execute("place_letter", values).rowcount else None


def candidates(
    tx: Reading, agent: str, now: str, letter_id: int | None = None, task_id: str | None = None
) -> Iterator[LetterRow]:
    """Yield what an agent may claim, the most urgent and oldest first: of one task or any.

    One at a time: where many claim at once, each that is looked at is kept from the others.
    """
    if letter_id is not None:
        found = _rows(tx, "letter_to_claim", letter_id=letter_id)
        yield from (row for row in found if row.box == "new")
        return
    values: dict[str, object] = {"agent": agent, "task_id": task_id, "now": now}
    values |= {"rank": -1, "created_at": "", "letter_id": 0}
    while found := _rows(tx, "claimable_letters", **values):
        yield found[0]
        values |= {name: getattr(found[0], name) for name in ("rank", "created_at", "letter_id")}


def _rows(store: Reading, query: str, **values: object) -> list[LetterRow]:
    return store.records(LetterRow, query, **values)
