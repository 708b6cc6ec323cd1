"""Find letters by what their headers say; files are the truth."""

from typing import NamedTuple

from treadle.store.reading import Reading
from treadle.store.rows.letter import FolderRow, LetterRow, to_letter

# Sorts after every letter.
_LAST: tuple[str, int] = ("~", 1 << 62)


class Place(NamedTuple):
    """Where a letter lies: in which kind of box, whose, and in which folder."""

    box: str
    agent: str | None
    folder: str


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
    return [(agent, int(count)) for agent, count in store._all("letters_unread")]


def of_task(store: Reading, task_id: str) -> list[LetterRow]:
    """Return every letter about a task, oldest first."""
    return _rows(store, "letters_of_task", task_id=task_id)


def wait_elsewhere(store: Reading) -> bool:
    """Tell whether runs that ended on other machines have letters to send."""
    return bool(store._all("runs_with_letters"))


def asker(store: Reading, task_id: str) -> str | None:
    """Return who wrote the letter about a task that was seen first."""
    first = min(of_task(store, task_id), key=lambda row: row.letter_id or 0, default=None)
    return first.sender if first else None


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
    return {name: id_ for id_, name in store._all("letters_in_folder", folder=folder)}


def folders(store: Reading) -> dict[str, FolderRow]:
    """Return how every folder looked when it was last read."""
    return {row[0]: FolderRow._make(row) for row in store._all("mail_folders")}


def _rows(store: Reading, query: str, **values: object) -> list[LetterRow]:
    return [to_letter(row) for row in store._all(query, **values)]
