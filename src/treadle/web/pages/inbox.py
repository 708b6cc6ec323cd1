"""Inbox and mail: what comes in, what follows from it, and what agents write."""

from collections import defaultdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from cronsim import CronSim

from treadle import frontmatter
from treadle.contract import load_object
from treadle.errors import FormatError
from treadle.files import walk
from treadle.ids import HUMAN, agent_name, utc
from treadle.inbox import box, plan, schedule, spec_state, specs
from treadle.inbox.known import InboxView
from treadle.inbox.schedule import Scheduled
from treadle.layout import BOXES, Layout, MailLayout
from treadle.mail import find
from treadle.mail import find as documents
from treadle.store import letters as table
from treadle.store.letters import LetterRow
from treadle.store.messages import MessageRow
from treadle.store.questions import Subject
from treadle.web.pages import desk
from treadle.web.site import Document, Site, WebRequest, store_with_letters

_CHAINS = 20


class Branch(NamedTuple):
    """A message and those that followed from it."""

    message: Document
    children: "list[Branch]"


def inbox_document(site: Site, asked: WebRequest) -> Document:
    """Return what `process --dry-run`, `dead list` and `spec list` give as JSON."""
    layout = site.project.layout
    config = site.project.settings.config
    with site.store() as store:
        planned = plan.plan_document(
            plan.plan(layout, config, store), tuple(specs.not_taken(layout))
        )
        view = InboxView(layout, config, store, utc(store.now()))
        states = spec_state.specs_document(spec_state.spec_views(view))
    return planned | states | box.dead_document(box.dead_letters(layout))


def inbox_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the newest chains as trees, and the schedule."""
    layout = site.project.layout
    with site.store() as store:
        chains = [
            (chain, status, grow(store.chain_messages(chain)))
            for chain, status in store.chains(_CHAINS)
        ]
    words = {letter.name: box.text_of_dead(layout, letter) for letter in box.dead_letters(layout)}
    known = cast(list[dict[str, str]], found["specs"])
    ways = {it["name"]: spec_state.ways(it["name"], it["state"], None) for it in known}
    return {
        "chains": chains,
        "begins": partial(_begins, layout),
        "words": words,
        "can": {name: [line.split()[2] for line in lines] for name, lines in ways.items()},
        "schedule": [_scheduled(job, site.now()) for job in schedule.jobs(layout)],
    }


def _begins(layout: Layout, name: str) -> str:
    """Return how a message or a spec begins, wherever it lies by now."""
    folders = (layout.inbox, layout.specs, layout.inbox_done, layout.inbox_dead)
    return next(filter(None, (_first_line(folder / name) for folder in folders)), "")


def _first_line(path: Path) -> str:
    try:
        body = frontmatter.read(box.read(path))[1].decode(errors="replace")
    except (FormatError, OSError):
        return ""
    return next((line.strip("# ") for line in body.splitlines() if line.strip()), "")


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
    first = next(moments := CronSim(job.expression, now.astimezone(job.zone)), None)
    return {
        "name": job.name,
        "error": None,
        "expression": job.expression,
        "words": moments.explain(),
        "zone": job.zone,
        "next": first and utc(first),
        "body": job.draft.body.decode(errors="replace"),
        "routine": job.draft.routine,
    }


_LETTERS = 100
_REASON = ".reason.json"
_MAX = 64 * 1024


def mail_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle mail list --json` gives."""
    with store_with_letters(site) as store:
        listed = find.list_letters(store, _wanted(asked))
    return documents.list_document(site.project.layout, listed)


def mail_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Sort the letters into threads; the one with the newest letter comes first."""
    with store_with_letters(site) as store:
        rows = find.list_letters(store, _wanted(asked)).rows
        unread = table.unread(store)
    threads: dict[str | None, list[LetterRow]] = defaultdict(list)
    for row in rows:
        threads[row.task_id].append(row)
    return {
        "threads": [(task, [row._asdict() for row in found]) for task, found in threads.items()],
        "unread": unread,
        "quarantine": _quarantine(site.project.layout.mail),
        "full": found["more"],
        "human": HUMAN,
    }


def letter_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle mail read --json` gives."""
    layout = site.project.layout
    with store_with_letters(site) as store:
        agent = agent_name(reader) if (reader := asked.fields.get("as")) else None
        row = find.find_letter(store, asked.names["letter"], agent)
    return documents.whole_document(layout, row, find.open_letter(layout.mail, row))


def letter_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the other letters about the same task, and the answers that can be chosen."""
    name = str(found["file"]).rpartition("/")[2]
    with site.store() as store:
        others = table.of_task(store, str(task_id)) if (task_id := found["task_id"]) else []
        asks = [it for it in store.questions_about(Subject("letter", name)) if it.is_open]
    return {
        "thread": [row._asdict() for row in others],
        "name": name,
        "human": HUMAN,
        "asks": [(item.question_id, desk.ways_of(item)) for item in asks],
    }


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
