"""Desk: everything that waits for a person, and what would resolve it."""

from typing import NamedTuple

from treadle.errors import NotFoundError
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


def document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle desk --json` gives."""
    with store_with_letters(site) as store:
        return questions.items_document(store.questions())


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what each item's run has spent, and what can be started for it."""
    with site.store() as store:
        rows = [questions.item_document(item) | _around(store, item) for item in store.questions()]
    return {"rows": rows}


def answer(asked: WebRequest) -> list[str]:
    """Answer by number or in words."""
    if "option" in asked.fields:
        return ["answer", f"--option={asked.number('option', 0)}", _item(asked)]
    return ["answer", "--", _item(asked), asked.text("text", "TEXT")]


def again(asked: WebRequest) -> list[str]:
    """Begin a task's work anew."""
    return ["run", "--wait", "--", asked.text("task", "TASK")]


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
