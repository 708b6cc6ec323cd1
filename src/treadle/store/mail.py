"""Find letters by their headers, and change where they are said to lie; files are the truth."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from treadle.store import codec, task_changes
from treadle.store.queries import SQL
from treadle.store.reader import Reader
from treadle.store.records import FolderRow, LetterRow, MoveRow, TaskRow
from treadle.store.writer import Store

# Sorts after every letter.
_LAST: tuple[str, int] = ("~", 1 << 62)


class Place(NamedTuple):
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
    place: Place
    now: str
    letter_id: int | None = None
    task_id: str | None = None


class Claimed(NamedTuple):
    """A letter before and after its claim."""

    before: LetterRow
    after: LetterRow
    task: TaskRow | None


def at(store: Reader, folder: str, name: str) -> LetterRow | None:
    """Return the letter that is said to lie there."""
    found = _rows(store, "letter_at", folder=folder, file=name)
    return found[0] if found else None


def with_id(store: Reader, letter_id: int) -> list[LetterRow]:
    """Return the letter with this number, if it is still there."""
    return _rows(store, "letter", letter_id=letter_id)


def named(store: Reader, name: str) -> list[LetterRow]:
    """Return the letters of this name, copies last."""
    return _rows(store, "letters_named", file=name)


def with_message_id(store: Reader, message_id: str) -> list[LetterRow]:
    """Return the letters with this id, copies last."""
    return _rows(store, "letters_with_message_id", message_id=message_id)


def in_box(
    store: Reader, box: str, limit: int, before: tuple[str, int] | None = None
) -> list[LetterRow]:
    """Return the newest letters in all boxes of a kind."""
    created_at, letter_id = before or _LAST
    return _rows(
        store, "letters_in_box", box=box, limit=limit, created_at=created_at, letter_id=letter_id
    )


def to_agent(
    store: Reader, agent: str, limit: int, before: tuple[str, int] | None = None
) -> list[LetterRow]:
    """Return the newest unclaimed letters to an address."""
    created_at, letter_id = before or _LAST
    values = {"agent": agent, "limit": limit, "created_at": created_at, "letter_id": letter_id}
    return _rows(store, "letters_to", **values)


def held(
    store: Reader, agent: str, box: str, limit: int, before: tuple[str, int] | None = None
) -> list[LetterRow]:
    """Return the newest letters in one agent's box."""
    created_at, letter_id = before or _LAST
    values = {"agent": agent, "limit": limit, "created_at": created_at, "letter_id": letter_id}
    return _rows(store, "letters_held", box=box, **values)


def of_task(store: Reader, task_id: str) -> list[LetterRow]:
    """Return every letter about a task, oldest first."""
    return _rows(store, "letters_of_task", task_id=task_id)


def asker(store: Reader, task_id: str) -> str | None:
    """Return who wrote the letter about a task that was seen first."""
    first = min(of_task(store, task_id), key=lambda row: row.letter_id or 0, default=None)
    return first.sender if first else None


def of_question(store: Reader, question_id: str) -> list[LetterRow]:
    """Return the letters that put a question on the desk."""
    return _rows(store, "letters_answered_by", question_id=question_id)


def copies(store: Reader, name: str) -> list[LetterRow]:
    """Return the copies of a letter to all."""
    return _rows(store, "copies_of", file=name)


def pending(store: Reader) -> list[LetterRow]:
    """Return the letters whose effect has not been made."""
    return _rows(store, "letters_pending")


def after(store: Reader, letter_id: int, limit: int) -> list[LetterRow]:
    """Return letters in the order in which they were first seen."""
    return _rows(store, "letters_between", after=letter_id, limit=limit)


def names_in(store: Reader, folder: str) -> dict[str, int]:
    """Return the letters that are said to lie in a folder."""
    return {name: id_ for id_, name in store._all("letters_in_folder", folder=folder)}


def folders(store: Reader) -> dict[str, FolderRow]:
    """Return how every folder looked when it was last read."""
    return {row[0]: FolderRow._make(row) for row in store._all("mail_folders")}


def insert(store: Store, rows: Sequence[LetterRow]) -> None:
    """Add letters that were found; one that is known already stays as it is."""

    def apply(tx: sqlite3.Connection) -> None:
        # A number of its own for each, never given again: the words of a letter hang on it.
        for row in rows:
            number = tx.execute(SQL["count_up"], {"name": "letter"}).fetchone()[0]
            tx.execute(SQL["insert_letter"], codec.values(row._replace(letter_id=number)))

    store._write(apply)


def forget(store: Store, gone: Sequence[LetterRow]) -> None:
    """Drop letters whose files are gone, unless they have moved meanwhile."""
    values = [row._asdict() for row in gone]
    store._write(lambda tx: tx.executemany(SQL["forget_letter"], values))


def mark(store: Store, seen: Sequence[FolderRow], gone: Sequence[str] = ()) -> None:
    """Remember how folders looked."""

    def apply(tx: sqlite3.Connection) -> None:
        tx.executemany(SQL["mark_folder"], seen)
        tx.executemany(SQL["forget_folder"], [{"folder": folder} for folder in gone])

    store._write(apply)


def settle(store: Store, letter_id: int, question_id: str | None = None) -> None:
    """Say that a letter's effect is made."""
    values = {"letter_id": letter_id, "question_id": question_id}
    store._write(lambda tx: tx.execute(SQL["settle_letter"], values))


def place(store: Store, row: LetterRow, to: Place, names: Iterator[str]) -> LetterRow | None:
    """Say that a letter lies elsewhere now; None when somebody else moved it before."""
    return store._write(lambda tx: _place(tx, row, to, names))


def claim(
    store: Store,
    wanted: Wanted,
    names: Callable[[str], Iterator[str]],
    take: Callable[[LetterRow, TaskRow | None], TaskTaken | None],
) -> Claimed | None:
    """Give the oldest letter that can be had, and its task with it, to one claimant."""

    def apply(tx: sqlite3.Connection) -> Claimed | None:
        for row in _candidates(tx, wanted):
            task = _task(tx, row)
            taken = take(row, task)
            if taken is None:
                continue
            claim_id = f"{wanted.agent}-{row.letter_id}"
            if task and taken.after:
                task_changes.swap(tx, task, taken.after, taken.move)
                claim_id = taken.after.claim_id or claim_id
            moved = _place(tx, row._replace(claim_id=claim_id), wanted.place, names(row.name))
            if moved:
                return Claimed(row, moved, taken.after)
        return None

    return store._write(apply)


def _candidates(tx: sqlite3.Connection, wanted: Wanted) -> Iterator[LetterRow]:
    if wanted.letter_id is not None:
        found = tx.execute(SQL["letter"], {"letter_id": wanted.letter_id}).fetchall()
        return (row for row in map(_row, found) if row.box == "new")
    values = {"agent": wanted.agent, "task_id": wanted.task_id, "now": wanted.now}
    return map(_row, tx.execute(SQL["claimable_letters"], values))


def _task(tx: sqlite3.Connection, row: LetterRow) -> TaskRow | None:
    if row.task_id is None:
        return None
    found = tx.execute(SQL["task"], {"task_id": row.task_id}).fetchone()
    return codec.task(found) if found else None


def _place(
    tx: sqlite3.Connection, row: LetterRow, to: Place, names: Iterator[str]
) -> LetterRow | None:
    for name in names:
        taken = tx.execute(SQL["letter_at"], {"folder": to.folder, "file": name}).fetchone()
        if taken is None:
            break
    moved = row._replace(box=to.box, agent=to.agent, folder=to.folder, name=name)
    values = moved._asdict() | {"seen_folder": row.folder, "seen_name": row.name}
    return moved if tx.execute(SQL["place_letter"], values).rowcount else None


def _row(row: codec.Row) -> LetterRow:
    found = LetterRow._make(row)
    return found._replace(pending=bool(found.pending))


def _rows(store: Reader, query: str, **values: object) -> list[LetterRow]:
    return [_row(row) for row in store._all(query, **values)]
