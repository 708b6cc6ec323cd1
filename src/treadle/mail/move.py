"""Move letters: the store says where, then the file follows."""

from treadle.files import deliver
from treadle.layout import MailLayout
from treadle.mail import place
from treadle.mail.name import numbered
from treadle.store import letters as index
from treadle.store.letters import LetterRow, Place
from treadle.store.store import Store


def move(store: Store, mail: MailLayout, row: LetterRow, to: Place) -> LetterRow:
    """Move a letter; a kill in between leaves a file that the next look puts in its place."""
    moved = index.place(store, row, to, numbered(row.name))
    if moved is None:
        raise place.gone(row.name)
    return follow(store, mail, row, moved)


def follow(store: Store, mail: MailLayout, before: LetterRow, after: LetterRow) -> LetterRow:
    """Rename a letter's file to where the store says it is now."""
    folder = mail.root / after.folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        name = deliver.move(place.path(mail, before), folder, numbered(after.name))
    except FileNotFoundError as error:
        # Somebody else's look may have taken this for a move that a kill cut off, and made it.
        for now_at in index.with_id(store, after.letter_id or 0):
            if place.path(mail, now_at).exists():
                return now_at
        index.forget(store, [after])
        raise place.gone(before.name) from error
    if name != after.name:
        index.place(store, after, place.of_folder(after.folder), numbered(name))
    return after._replace(name=name)
