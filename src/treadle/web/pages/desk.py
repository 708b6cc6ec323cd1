"""Desk: everything that waits for a person, and what would resolve it."""

from collections import defaultdict
from datetime import datetime
from typing import NamedTuple

from cronsim import CronSim

from treadle.contract import load_object
from treadle.errors import FormatError, NotFoundError
from treadle.files import walk
from treadle.ids import HUMAN
from treadle.inbox import box, decide, schedule
from treadle.inbox.schedule import Scheduled
from treadle.layout import BOXES, MailLayout
from treadle.mail import find
from treadle.mail import find as documents
from treadle.project.context import reread
from treadle.store import letters as table
from treadle.store.letters import LetterRow
from treadle.store.messages import MessageRow
from treadle.store.questions import Action, QuestionRow
from treadle.store.store import Reader
from treadle.tasks import questions
from treadle.web.site import Document, Site, WebRequest, store_with_letters


class Way(NamedTuple):
    """A command of an item that can be started here: an action with its names and fields."""

    path: str
    label: str
    names: dict[str, str]
    fields: dict[str, str]


def desk_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle desk --json` gives."""
    with store_with_letters(site) as store:
        return questions.items_document(store.questions())


def desk_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what each item's run has spent, and what can be started for it."""
    with site.store() as store:
        rows = [questions.item_document(item) | _around(store, item) for item in store.questions()]
    return {"rows": rows}


def answer(asked: WebRequest) -> list[str]:
    """Answer by number or in words."""
    if "option" in asked.fields:
        return ["answer", f"--option={asked.number('option', 0)}", _item(asked)]
    return ["answer", "--", _item(asked), asked.text("text", "TEXT")]


def _item(asked: WebRequest) -> str:
    found = asked.names["item"]
    if found.replace("-", "").isalnum():
        return found
    raise NotFoundError(f"nothing on the desk is called {found!r}", fix=["treadle desk"])


def _around(store: Reader, item: QuestionRow) -> Document:
    run = store.run(item.run_id) if item.run_id else None
    ways = [(number, _way(action, item)) for number, action in enumerate(item.actions, 1)]
    names = questions.labels(item)
    started = {questions.command(action, item.subject) for action in item.actions}
    return {
        "run": run._asdict() if run else None,
        "spent": store.kv_value(item.run_id, "spent") if item.run_id else None,
        "ways": [way._asdict() for _, way in ways if way],
        "answers": [(number, names[number - 1]) for number, way in ways if way is None],
        "look": [command for command in item.look if command not in started],
        "letter": item.subject_id if item.subject_kind == "letter" else None,
    }


def _way(action: Action, item: QuestionRow) -> Way | None:
    """Return how an action is started here; None for one that is only written down."""
    name, run = questions.label(action, item.subject), {"run": item.subject_id}
    match action.verb, item.subject_kind:
        case "approve", "run":
            kind = "approve" if action.value == questions.PROTECTED else "budget"
            return Way("/runs/{run}/resume", name, run, {kind: action.value or ""})
        case (("resume" | "reject"), "run") if action.target is None:
            budget = {"budget": action.value} if action.value else {}
            return Way("/runs/{run}/resume", name, run, budget)
        case "land", "run":
            return Way("/runs/{run}/land", name, run, {})
        case "retry", "message":
            return Way("/inbox/retry", name, {}, {"letter": item.subject_id})
        case "again", _ if action.target:
            return Way("/desk/again", name, {}, {"task": action.target})
        case _:
            return None


_CHAINS = 20


class Branch(NamedTuple):
    """A message and those that followed from it."""

    message: Document
    children: "list[Branch]"


def inbox_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle process --dry-run --json` and `treadle dead list --json` give."""
    layout = site.project.layout
    config = reread(site.project).settings.config
    with site.store() as store:
        planned = decide.plan_document(decide.plan(layout, config, store))
    return planned | box.dead_document(box.dead_letters(layout))


def inbox_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the newest chains as trees, and the schedule."""
    layout = site.project.layout
    with site.store() as store:
        chains = [
            (chain, status, grow(store.chain_messages(chain)))
            for chain, status in store.chains(_CHAINS)
        ]
    words = {letter.name: box.text_of_dead(layout, letter) for letter in box.dead_letters(layout)}
    return {
        "chains": chains,
        "words": words,
        "schedule": [_scheduled(job, site.now()) for job in schedule.jobs(layout)],
    }


def send(asked: WebRequest) -> list[str]:
    """Put a message into the inbox."""
    routine = asked.fields.get("routine", "").strip()
    options = [f"--routine={routine}"] if routine else []
    text = asked.text("text", "TEXT")
    # A lone dash would make the command read its own input.
    return ["send", *options, "--", f"{text}\n" if text == "-" else text]


def grow(rows: list[MessageRow]) -> list[Branch]:
    """Return a chain's messages as trees; one whose parent is unknown is a root."""
    known = {row.message_id: Branch(row._asdict(), []) for row in rows}
    roots: list[Branch] = []
    for row in rows:
        parent = known.get(row.parent or "")
        branch = known[row.message_id]
        (parent.children if parent and parent is not branch else roots).append(branch)
    return roots


def _scheduled(job: Scheduled | FormatError, now: datetime) -> Document:
    """Say in words when a message is sent, and when next."""
    if isinstance(job, FormatError):
        return {"name": "", "error": job.message}
    moments = CronSim(job.expression, now.astimezone(job.zone))
    return {
        "name": job.name,
        "error": None,
        "expression": job.expression,
        "words": moments.explain(),
        "zone": str(job.zone or now.astimezone().tzname()),
        "next": next(moments, None),
        "body": job.draft.body.decode(errors="replace"),
        "routine": job.draft.routine,
    }


_LETTERS = 100
_REASON = ".reason.json"
_MAX = 64 * 1024


def mail_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle mail list --json` gives."""
    with store_with_letters(site) as store:
        rows = find.list_letters(store, _wanted(asked))
    return documents.list_document(site.project.layout, rows)


def mail_view(site: Site, asked: WebRequest, found: Document) -> Document:
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


def letter_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle mail read --json` gives."""
    layout = site.project.layout
    with store_with_letters(site) as store:
        row = find.find_letter(store, asked.names["letter"], asked.fields.get("as"))
    return documents.whole_document(layout, row, find.open_letter(layout.mail, row))


def letter_view(site: Site, asked: WebRequest, found: Document) -> Document:
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
        return str(load_object(data, source=name).get("reason"))
    except FormatError as error:
        return error.message
