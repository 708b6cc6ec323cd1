"""Desk: everything that waits for a person, and what would resolve it."""

import shlex
from typing import NamedTuple

from treadle.desk import desk
from treadle.errors import NotFoundError
from treadle.store.questions import QuestionRow
from treadle.store.store import Reader
from treadle.web.site import Document, Site, WebRequest, store_with_letters

_READ = "treadle mail read "
_SHOWN = (_READ, "treadle answer ")  # in another way


class Way(NamedTuple):
    """A command of an item that can be started here: an action with its names and fields."""

    path: str
    label: str
    names: dict[str, str]
    fields: dict[str, str]


def document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle desk --json` gives."""
    with store_with_letters(site) as store:
        return desk.document(desk.items(store))


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what each item's run has spent, and what can be started for it."""
    with site.store() as store:
        rows = [desk.told(item) | _around(store, item) for item in desk.items(store)]
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
    ways = [way for command in item.fix if (way := _way(command))]
    read = [_words(it)[-1] for it in item.fix if it.startswith(_READ) and _words(it)]
    numbered = list(enumerate(item.options, 1))
    if ways and numbered:
        # The first answer would only write down what this button does.
        ways[0] = ways[0]._replace(label=numbered.pop(0)[1])
    return {
        "run": run._asdict() if run else None,
        "spent": store.kv_value(item.run_id, "spent") if item.run_id else None,
        "ways": [way._asdict() for way in ways],
        "answers": numbered,
        "look": [it for it in item.fix if not _way(it) and not it.startswith(_SHOWN)],
        "letter": read[0] if read else None,
    }


def _way(command: str) -> Way | None:
    """Return the action that a command stands for, if the page has it."""
    match _words(command):
        case ["treadle", "run", "--resume", run, "--budget", budget]:
            return Way("/runs/{run}/resume", "resume", {"run": run}, {"budget": budget})
        case ["treadle", "run", "--resume", run, "--approve", what]:
            return Way("/runs/{run}/resume", "approve", {"run": run}, {"approve": what})
        case ["treadle", "run", "--resume", run]:
            return Way("/runs/{run}/resume", "resume", {"run": run}, {})
        case ["treadle", "land", run]:
            return Way("/runs/{run}/land", "land", {"run": run}, {})
        case ["treadle", "dead", "retry", letter]:
            return Way("/inbox/retry", "retry", {}, {"letter": letter})
        case ["treadle", "run", task] if not task.startswith("-"):
            return Way("/desk/again", "again", {}, {"task": task})
        case _:
            return None


def _words(command: str) -> list[str]:
    """Return the words of a command; a name that looks like an option stands behind two dashes."""
    try:
        return [word for word in shlex.split(command) if word != "--"]
    except ValueError:
        return []
