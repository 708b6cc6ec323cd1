"""Where letters lie, what their headers say, who claimed them and how they are searched.

Files are the truth; this is an index of them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from treadle.store.tasks import MoveRow, TaskRow, TaskStore, count_up
from treadle.store.transaction import Reading, Writing, change, kept_in

# Sorts after every letter.
_LAST: tuple[str, int] = ("~", 1 << 62)


@kept_in("mail_index", pending=bool)
class LetterRow(NamedTuple):
    """Where one letter lies and what its headers say; `pending` while its effect is not made."""

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


class TaskTaken(NamedTuple):
    """What claiming a letter does to its task, if it has one."""

    after: TaskRow | None = None
    move: MoveRow | None = None


class Wanted(NamedTuple):
    """Who claims which letter: one, or the oldest, of one task or any, into which box."""

    agent: str
    place: BoxFolder
    now: str
    letter_id: int | None = None
    task_id: str | None = None


class ClaimedLetter(NamedTuple):
    """A letter before and after its claim."""

    before: LetterRow
    after: LetterRow
    task: TaskRow | None


def at(store: Reading, folder: str, name: str) -> LetterRow | None:
    """Return the letter that is said to lie there."""
    found = _rows(store, "letter_at", folder=folder, file=name)
    return found[0] if found else None


def with_id(store: Reading, letter_id: int) -> list[LetterRow]:
    """Return the letter with this number, if it is still there."""
    return _rows(store, "letter", letter_id=letter_id)


def named(store: Reading, name: str) -> list[LetterRow]:
    """Return the letters of this name, copies last."""
    return _rows(store, "letters_named", file=name)


def with_message_id(store: Reading, message_id: str) -> list[LetterRow]:
    """Return the letters with this id, copies last."""
    return _rows(store, "letters_with_message_id", message_id=message_id)


def in_box(
    store: Reading, box: str, limit: int, before: tuple[str, int] | None = None
) -> list[LetterRow]:
    """Return the newest letters in all boxes of a kind."""
    created_at, letter_id = before or _LAST
    return _rows(
        store, "letters_in_box", box=box, limit=limit, created_at=created_at, letter_id=letter_id
    )


def to_agent(
    store: Reading, agent: str, limit: int, before: tuple[str, int] | None = None
) -> list[LetterRow]:
    """Return the newest unclaimed letters to an address."""
    created_at, letter_id = before or _LAST
    values = {"agent": agent, "limit": limit, "created_at": created_at, "letter_id": letter_id}
    return _rows(store, "letters_to", **values)


def held(
    store: Reading, agent: str, box: str, limit: int, before: tuple[str, int] | None = None
) -> list[LetterRow]:
    """Return the newest letters in one agent's box."""
    created_at, letter_id = before or _LAST
    values = {"agent": agent, "limit": limit, "created_at": created_at, "letter_id": letter_id}
    return _rows(store, "letters_held", box=box, **values)


def unread(store: Reading) -> list[tuple[str, int]]:
    """Return how many letters wait for each address."""
    return [(agent, int(count)) for agent, count in store.all("letters_unread")]


def of_task(store: Reading, task_id: str) -> list[LetterRow]:
    """Return every letter about a task, oldest first."""
    return _rows(store, "letters_of_task", task_id=task_id)


def wait_elsewhere(store: Reading) -> bool:
    """Tell whether runs that ended on other machines have letters to send."""
    return bool(store.all("runs_with_letters"))


def asker(store: Reading, task_id: str) -> str | None:
    """Return who wrote the first letter that asks for a task's work; runs only tell of it."""
    found = _rows(store, "letters_that_ask", task_id=task_id)
    return found[0].sender if found else None


def of_question(store: Reading, question_id: str) -> list[LetterRow]:
    """Return the letters that put a question on the desk."""
    return _rows(store, "letters_answered_by", question_id=question_id)


def copies(store: Reading, name: str) -> list[LetterRow]:
    """Return the copies of a letter to all."""
    return _rows(store, "copies_of", file=name)


def pending(store: Reading) -> list[LetterRow]:
    """Return the letters whose effect has not been made."""
    return _rows(store, "letters_pending")


def after(store: Reading, letter_id: int, limit: int) -> list[LetterRow]:
    """Return letters in the order in which they were first seen."""
    return _rows(store, "letters_between", after=letter_id, limit=limit)


def names_in(store: Reading, folder: str) -> dict[str, int]:
    """Return the letters that are said to lie in a folder."""
    return {name: id_ for id_, name in store.all("letters_in_folder", folder=folder)}


def folders(store: Reading) -> dict[str, FolderRow]:
    """Return how every folder looked when it was last read."""
    return {row[0]: FolderRow._make(row) for row in store.all("mail_folders")}


@change
def insert(tx: Writing, rows: Sequence[LetterRow]) -> None:
    """Add letters that were found; one that is known already stays as it is."""
    # A number of its own for each, never given again: the words of a letter hang on it.
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
    for name in names:
        if at(tx, to.folder, name) is None:
            break
    moved = row._replace(box=to.box, agent=to.agent, folder=to.folder, name=name)
    values = moved._asdict() | {"seen_folder": row.folder, "seen_name": row.name}
    return moved if tx.execute("place_letter", values).rowcount else None


def claim(
    store: Writing,
    wanted: Wanted,
    names: Callable[[str], Iterator[str]],
    take: Callable[[LetterRow, TaskRow | None], TaskTaken | None],
) -> ClaimedLetter | None:
    """Give the oldest letter that can be had, and its task with it, to one claimant."""

    def apply(tx: TaskStore) -> ClaimedLetter | None:
        for row in _candidates(tx, wanted):
            taken = _take_task(tx, row, take)
            if taken is None:
                continue
            claim_id = f"{wanted.agent}-{row.letter_id}"
            if taken.after:
                claim_id = taken.after.claim_id or claim_id
            moved = place(tx, row._replace(claim_id=claim_id), wanted.place, names(row.name))
            if moved:
                return ClaimedLetter(row, moved, taken.after)
        return None

    return store.write(apply, alone=False)


def _take_task(
    tx: TaskStore, row: LetterRow, take: Callable[[LetterRow, TaskRow | None], TaskTaken | None]
) -> TaskTaken | None:
    """Take a letter's task along; whoever changes it at the same time is asked about anew."""
    while True:
        task = tx.task(row.task_id) if row.task_id is not None else None
        taken = take(row, task)
        if taken is None or task is None or taken.after is None:
            return taken
        if tx.swap_task(task, taken.after, taken.move):
            return taken


def _candidates(tx: Reading, wanted: Wanted) -> Iterator[LetterRow]:
    """Look at one letter at a time: where many claim at once, each looked at is kept from them."""
    if wanted.letter_id is not None:
        yield from (
            row
            for row in _rows(tx, "letter_to_claim", letter_id=wanted.letter_id)
            if row.box == "new"
        )
        return
    values = {"agent": wanted.agent, "task_id": wanted.task_id, "now": wanted.now}
    last: tuple[str, int | None] = ("", 0)
    while found := _rows(tx, "claimable_letters", **values, created_at=last[0], letter_id=last[1]):
        yield found[0]
        last = found[0].created_at, found[0].letter_id


def _rows(store: Reading, query: str, **values: object) -> list[LetterRow]:
    return store.records(LetterRow, query, **values)
