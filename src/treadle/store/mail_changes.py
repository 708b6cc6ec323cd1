"""Change where letters are said to lie, and who claimed them."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from treadle.store import codec, task_changes
from treadle.store.backend import Connection
from treadle.store.mail import Place
from treadle.store.queries import SQL
from treadle.store.rows.letter import FolderRow, LetterRow, to_letter
from treadle.store.rows.task import MoveRow, TaskRow, to_task
from treadle.store.writing import Writing


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


def insert(store: Writing, rows: Sequence[LetterRow]) -> None:
    """Add letters that were found; one that is known already stays as it is."""

    def apply(tx: Connection) -> None:
        # A number of its own for each, never given again: the words of a letter hang on it.
        for row in rows:
            number = tx.execute(SQL["count_up"], {"name": "letter"}).fetchone()[0]
            tx.execute(SQL["insert_letter"], codec.values(row._replace(letter_id=number)))

    store._write(apply)


def forget(store: Writing, gone: Sequence[LetterRow]) -> None:
    """Drop letters whose files are gone, unless they have moved meanwhile."""
    values = [row._asdict() for row in gone]
    store._write(lambda tx: tx.executemany(SQL["forget_letter"], values))


def mark(store: Writing, seen: Sequence[FolderRow], gone: Sequence[str] = ()) -> None:
    """Remember how folders looked."""

    def apply(tx: Connection) -> None:
        tx.executemany(SQL["mark_folder"], seen)
        tx.executemany(SQL["forget_folder"], [{"folder": folder} for folder in gone])

    store._write(apply)


def settle(store: Writing, letter_id: int, question_id: str | None = None) -> None:
    """Say that a letter's effect is made."""
    values = {"letter_id": letter_id, "question_id": question_id}
    store._write(lambda tx: tx.execute(SQL["settle_letter"], values))


def place(store: Writing, row: LetterRow, to: Place, names: Iterator[str]) -> LetterRow | None:
    """Say that a letter lies elsewhere now; None when somebody else moved it before."""
    return store._write(lambda tx: _place(tx, row, to, names))


def claim(
    store: Writing,
    wanted: Wanted,
    names: Callable[[str], Iterator[str]],
    take: Callable[[LetterRow, TaskRow | None], TaskTaken | None],
) -> Claimed | None:
    """Give the oldest letter that can be had, and its task with it, to one claimant."""

    def apply(tx: Connection) -> Claimed | None:
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

    return store._write(apply, alone=False)


def _candidates(tx: Connection, wanted: Wanted) -> Iterator[LetterRow]:
    if wanted.letter_id is not None:
        found = tx.execute(SQL["letter"], {"letter_id": wanted.letter_id}).fetchall()
        return (row for row in map(to_letter, found) if row.box == "new")
    return _oldest_first(tx, wanted)


def _oldest_first(tx: Connection, wanted: Wanted) -> Iterator[LetterRow]:
    """Look at one letter at a time: where many claim at once, each looked at is kept from them."""
    values = {"agent": wanted.agent, "task_id": wanted.task_id, "now": wanted.now}
    last: tuple[str, int | None] = ("", 0)
    while row := tx.execute(
        SQL["claimable_letters"], {**values, "created_at": last[0], "letter_id": last[1]}
    ).fetchone():
        found = to_letter(row)
        yield found
        last = found.created_at, found.letter_id


def _task(tx: Connection, row: LetterRow) -> TaskRow | None:
    if row.task_id is None:
        return None
    found = tx.execute(SQL["task"], {"task_id": row.task_id}).fetchone()
    return to_task(found) if found else None


def _place(tx: Connection, row: LetterRow, to: Place, names: Iterator[str]) -> LetterRow | None:
    for name in names:
        taken = tx.execute(SQL["letter_at"], {"folder": to.folder, "file": name}).fetchone()
        if taken is None:
            break
    moved = row._replace(box=to.box, agent=to.agent, folder=to.folder, name=name)
    values = moved._asdict() | {"seen_folder": row.folder, "seen_name": row.name}
    return moved if tx.execute(SQL["place_letter"], values).rowcount else None
