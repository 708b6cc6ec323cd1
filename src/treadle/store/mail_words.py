"""Search letters by their words with SQLite's FTS5, where SQLite has it."""

import sqlite3
from collections.abc import Callable

from treadle.store import mail as index
from treadle.store.backend import Connection
from treadle.store.queries import SQL
from treadle.store.rows.letter import LetterRow
from treadle.store.writing import Writing

_PAGE = 500


def catch_up(store: Writing, text: Callable[[LetterRow], str]) -> bool:
    """Take in the words of letters that came since; False where there is no full-text search."""
    if not store._write(_begin):
        return False
    last = store._write(_last)
    while page := index.after(store, last, _PAGE):
        _insert(store, [{"letter_id": row.letter_id, "words": text(row)} for row in page])
        last = page[-1].letter_id or 0
    return True


def search(store: Writing, match: str, limit: int) -> list[LetterRow]:
    """Return the newest letters that match; those that are gone are left out."""
    ids = store._all("letters_with_words", match=match, limit=limit)
    return [row for (id_,) in ids for row in index.with_id(store, id_)]


def forget(store: Writing) -> None:
    """Drop the words; the next search takes all of them in again."""
    store._write(lambda tx: tx.execute(SQL["forget_words"]))


def _insert(store: Writing, rows: list[dict[str, object]]) -> None:
    store._write(lambda tx: tx.executemany(SQL["insert_words"], rows))


def _begin(tx: Connection) -> bool:
    try:
        tx.execute(SQL["words_of_letters"])
    except sqlite3.OperationalError:
        return False
    return True


def _last(tx: Connection) -> int:
    return int(tx.execute(SQL["last_letter_with_words"]).fetchone()[0] or 0)
