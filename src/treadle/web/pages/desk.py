"""Desk: everything that waits for a person, and what would resolve it."""

import re
from functools import partial
from typing import NamedTuple, cast, get_args

from treadle import desk
from treadle.engine.run import memory
from treadle.engine.show import ends
from treadle.errors import NotFoundError
from treadle.store.questions import Action, QuestionRow, Verb
from treadle.store.store import Reader
from treadle.tasks import questions
from treadle.web import diff
from treadle.web.pages import run
from treadle.web.site import Document, Site, WebRequest, store_with_letters

ANSWER, WORK = "/desk/{item}/answer", "/desk/{item}/work"
_BEGIN = ("approve", "reject", *questions.GOES_ON)
_UNLANDED = "passed, not landed"
# What waits, sorted by what it asks of a person.
_GROUPS = {
    "blocked agents": ("question", "gate"),
    "approvals": ("approval",),
    _UNLANDED: ("refused_landing",),
    "budgets": ("budget",),
    "failures": ("failed_run",),
    "dead letters": ("dead_letter",),
    "held": ("held",),
}
_SENTENCE = re.compile(r"[^\n]*?[.?!](?=\s|$)|[^\n]+")


class Way(NamedTuple):
    """An answer to an item as a button: where it is sent with these fields, and maybe with words.

    What begins a run is sent where nobody waits for its end.
    """

    path: str
    label: str
    fields: dict[str, str]
    takes_words: bool


class DeskLine(NamedTuple):
    """A line of the list: what it is about, why it waits in one sentence, and where to go."""

    id: str
    url: str
    title: str
    cause: str
    since: str | None


def desk_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle desk --json` gives."""
    with store_with_letters(site) as store:
        return questions.items_document(store.desk()) | {"unlanded": ends.unlanded_document(store)}


def item_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle desk show --json` gives."""
    with store_with_letters(site) as store:
        row = questions.find(store, _item(asked))
        return desk.show_document(row, desk.details(site.project.layout, store, row))


def desk_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Sort what waits into groups, and show one item whole: the one asked for, else the first."""
    with site.store() as store:
        rows, unlanded = store.desk(), ends.unlanded_document(store)
        groups = {name: [_waiting(store, it) for it in rows if it.kind in kinds]
                  for name, kinds in _GROUPS.items()}  # fmt: skip
        groups[_UNLANDED] += map(_passed, reversed(unlanded))
        first = next((it.id for name in groups for it in groups[name] if it.id[0] == "Q"), None)
        chosen = asked.names.get("item")
        wanted = chosen or first
        shown = _shown(site, store, questions.find(store, wanted)) if wanted else None
    return {"groups": groups, "chosen": chosen, "item": shown, "count": len(rows) + len(unlanded)}


def _waiting(store: Reader, row: QuestionRow) -> DeskLine:
    title, cause = _named(store, row)
    return DeskLine(row.question_id, f"/desk/{row.question_id}", title, cause, row.created_at)


def _named(store: Reader, row: QuestionRow) -> tuple[str, str]:
    """Return what an item is about, and why it waits in one sentence."""
    run = store.run(row.run_id) if row.run_id else None
    task = store.task(row.task_id) if row.task_id else None
    first = _SENTENCE.search(row.summary)
    cause = first[0] if first else row.kind
    goal = run.goal if run else task.goal if task else ""
    return (goal, cause.removeprefix(f"{goal}: ")) if goal else (cause, "")


def _passed(run: Document) -> DeskLine:
    """Return the line of a run that passed and waits to be landed."""
    title = " ".join(str(run[key]) for key in ("name", "goal") if run[key])
    cause = str(run["reason"] or "all its criteria hold")
    since, id_ = cast("str | None", run["ended_at"]), str(run["run_id"])
    return DeskLine(id_, f"/runs/{id_}/changes", title, cause, since)


def _shown(site: Site, store: Reader, row: QuestionRow) -> Document:
    """Return one item with what is known about it; a diff as a diff, prose as prose."""
    parts = desk.details(site.project.layout, store, row)
    masked = [part._replace(text=site.mask.text(part.text)) for part in parts]
    title, cause = _named(store, row)
    patches = [it for it in masked if it.kind == "diff"]
    return questions.item_document(row) | _around(store, row) | {
        "title": title,
        "cause": cause,
        "is_more": len(row.summary) > len(title) + len(cause) + 4,
        "is_open": row.is_open,
        "answered": row,
        "diffs": [(it.title, diff.paint_all(diff.parse_diff(it.text))) for it in patches],
        "prose": [it for it in masked if it.kind == "prose"],
        "output": [it for it in masked if it.kind == "output"],
    }  # fmt: skip


def answer(asked: WebRequest) -> list[str]:
    """Answer with an action or by number, with words to it, or in words alone."""
    said, action = asked.fields.get("text", "").strip(), asked.fields.get("action")
    words = [f"--text={said}"] if said else []
    if action in get_args(Verb):
        return ["answer", _item(asked), str(action), *words, "--wait"]
    if "option" in asked.fields:
        return ["answer", _item(asked), f"--option={asked.number('option', 0)}", *words, "--wait"]
    return ["answer", "--wait", "--", _item(asked), asked.text("text", "TEXT")]


def _item(asked: WebRequest) -> str:
    found = asked.names["item"]
    if found.replace("-", "").isalnum():
        return found
    raise NotFoundError(f"nothing on the desk is called {found!r}", fix=["treadle desk"])


def _around(store: Reader, item: QuestionRow) -> Document:
    run = store.run(item.run_id) if item.run_id else None
    ways = ways_of(item)
    goes_on = [way.path for way in ways if way.fields.get("action") in questions.GOES_ON]
    started = {questions.command(action, item.subject) for action in item.actions}
    return {
        "run": run._asdict() if run else None,
        "spent": memory.recall(store, item.run_id).spent if item.run_id else None,
        "ways": ways,
        "say": goes_on[0] if goes_on else ANSWER,
        "look": [command for command in item.look if command not in started],
        "letter": item.subject_id if item.subject_kind == "letter" else None,
    }


def ways_of(item: QuestionRow) -> list[Way]:
    """Return the answers that can be chosen, as buttons."""
    return list(map(partial(_way, item), item.actions, item.answers))


def _way(item: QuestionRow, action: Action, line: str) -> Way:
    """Return the button for an answer: it runs the very command that the desk prints for it."""
    last = line.rpartition(" ")[2]
    field = {"option": last} if last.isdecimal() else {"action": last}
    begins = action.verb in _BEGIN and questions.command(action, item.subject)
    takes_words = action.verb == "reject" and item.subject_kind in ("run", "letter")
    path, label = WORK if begins else ANSWER, action.label(item.subject)
    if action.verb == "approve" and action.value:
        label += f" {run.APPROVED.get(action.value, action.value)}"
    elif action.verb == "resume" and action.value:
        label += f" with {action.value}"
    return Way(path, label, field, takes_words)
