"""Search letters by the words in them, wherever they lie."""

import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice

from treadle.errors import FormatError, UsageError
from treadle.layout import MailLayout
from treadle.mail import place
from treadle.mail.read import text
from treadle.store import letters as index
from treadle.store.letters import LetterRow
from treadle.store.store import Reader, Store

_PAGE = 500


def search(store: Reader, mail: MailLayout, words: Sequence[str], limit: int) -> list[LetterRow]:
    """Return the newest letters that have all the words."""
    wanted = [word for item in words for word in item.split()]
    if not wanted:
        raise UsageError("say which words to search for", fix=["treadle mail search WORD"])
    if isinstance(store, Store) and index.take_in_words(store, lambda row: _text(mail, row)):
        match = " ".join(_quoted(word) for word in wanted)
        return index.search(store, match, limit)
    return list(islice(_read_all(store, mail, wanted), limit))


def _quoted(word: str) -> str:
    escaped = word.replace('"', '""')
    return f'"{escaped}"'


def _text(mail: MailLayout, row: LetterRow) -> str:
    """Return a letter with its name; one that is gone has no words."""
    with contextlib.suppress(FormatError, FileNotFoundError):
        return f"{row.name}\n{text(place.path(mail, row))}"
    return ""


def _read_all(store: Reader, mail: MailLayout, words: Sequence[str]) -> Iterator[LetterRow]:
    """Look into every file, where SQLite cannot search or must not write."""
    found: list[LetterRow] = []
    last = 0
    while page := index.after(store, last, _PAGE):
        last = page[-1].letter_id or 0
        for row in page:
            whole = _text(mail, row).casefold()
            if all(word.casefold() in whole for word in words):
                found.append(row)
    return reversed(found)
