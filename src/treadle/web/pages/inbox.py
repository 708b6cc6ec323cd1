"""Inbox: what waits, what could not be carried out, what followed from what, what comes when."""

from datetime import datetime
from typing import NamedTuple

from cronsim import CronSim

from treadle.errors import FormatError
from treadle.inbox import box, decide, schedule
from treadle.inbox.schedule import Scheduled
from treadle.project.context import reread
from treadle.store.messages import MessageRow
from treadle.web.site import Document, Site, WebRequest

_CHAINS = 20


class Branch(NamedTuple):
    """A message and those that followed from it."""

    message: Document
    children: "list[Branch]"


def document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle process --dry-run --json` and `treadle dead list --json` give."""
    layout = site.project.layout
    config = reread(site.project).settings.config
    with site.store() as store:
        planned = decide.plan_document(decide.plan(layout, config, store))
    return planned | box.dead_document(box.dead_letters(layout))


def view(site: Site, asked: WebRequest, found: Document) -> Document:
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


def retry(asked: WebRequest) -> list[str]:
    """Put a dead letter back."""
    return ["dead", "retry", "--", asked.text("letter", "LETTER")]


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
