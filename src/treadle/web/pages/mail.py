"""Mail: letters in threads by task, who has unread ones, and what could not be read."""

from collections import defaultdict

from treadle.contract import strictjson
from treadle.errors import FormatError
from treadle.files import walk
from treadle.ids import HUMAN
from treadle.layout import BOXES, MailLayout
from treadle.mail import find
from treadle.mail import find as documents
from treadle.store import letters as table
from treadle.store.letters import LetterRow
from treadle.web.site import Document, Site, WebRequest, store_with_letters

_LETTERS = 100
_REASON = ".reason.json"
_MAX = 64 * 1024


def document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle mail list --json` gives."""
    with store_with_letters(site) as store:
        rows = find.list_letters(store, _wanted(asked))
    return documents.list_document(site.project.layout, rows)


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Sort the letters into threads; the one with the newest letter comes first."""
    with store_with_letters(site) as store:
        rows = find.list_letters(store, _wanted(asked))
        unread = table.unread(store)
    threads: dict[str | None, list[LetterRow]] = defaultdict(list)
    for row in rows:
        threads[row.task_id].append(row)
    return {
        "threads": [(task, [row._asdict() for row in found]) for task, found in threads.items()],
        "unread": unread,
        "quarantine": _quarantine(site.project.layout.mail),
        "full": len(rows) == _LETTERS,
        "human": HUMAN,
    }


def one(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle mail read --json` gives."""
    layout = site.project.layout
    with store_with_letters(site) as store:
        row = find.find_letter(store, asked.names["letter"], asked.fields.get("as"))
    return documents.whole_document(layout, row, find.open_letter(layout.mail, row))


def view_one(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the other letters about the same task."""
    with site.store() as store:
        task_id = found["task_id"]
        others = table.of_task(store, str(task_id)) if task_id else []
    name = str(found["file"]).rpartition("/")[2]
    return {"thread": [row._asdict() for row in others], "name": name, "human": HUMAN}


def reply(asked: WebRequest) -> list[str]:
    """Answer a letter as the human."""
    text = asked.text("text", "TEXT")
    return ["mail", "reply", f"--as={HUMAN}", f"--summary={text}", "--", asked.names["letter"]]


def ack(asked: WebRequest) -> list[str]:
    """Say that a letter to the human is taken care of."""
    return ["mail", "ack", f"--as={HUMAN}", "--", asked.names["letter"]]


def _wanted(asked: WebRequest) -> find.LetterQuery:
    boxes = BOXES if asked.fields.get("all") else find.OPEN
    return find.LetterQuery(None, boxes, asked.fields.get("task") or None, None, _LETTERS)


def _quarantine(mail: MailLayout) -> list[tuple[str, str]]:
    """Return the files that are no letters, each with what is wrong with it."""
    names = sorted(name for name in walk.names(mail.quarantine) if not name.endswith(_REASON))
    return [(name, _reason(mail, name)) for name in names[-_LETTERS:]]


def _reason(mail: MailLayout, name: str) -> str:
    try:
        data = walk.read(mail.quarantine / f"{name}{_REASON}", max_bytes=_MAX)
        return str(strictjson.load_object(data, source=name).get("reason"))
    except FormatError as error:
        return error.message
