"""Say what a pass would do, without doing it."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.config.schema import Config
from treadle.files import walk
from treadle.ids import utc
from treadle.inbox import box, decide, routine, specs
from treadle.inbox.known import (
    ALL,
    Action,
    AskFirst,
    Bury,
    InboxView,
    Known,
    Proceed,
    PutAside,
    ReadyMessage,
    Scope,
    Wait,
)
from treadle.inbox.spec_choice import decide_spec, is_postponed, spec_message
from treadle.inbox.specs import NotTaken
from treadle.layout import Layout
from treadle.project.trust import BroughtCommand
from treadle.store.store import Reader
from treadle.text import line


class Planned(NamedTuple):
    """One message or spec, the routine it would get and why, or what is wrong with it."""

    name: str
    message_id: str | None
    routine: str | None
    reason: str
    would: str


def plan(layout: Layout, config: Config, store: Reader, scope: Scope = ALL) -> list[Planned]:
    """Return what a pass would begin with; a router of the user's own is not asked."""
    specs.require_folder(layout)
    view = InboxView(layout, config, store, utc(store.now()))
    names = scope.messages if scope.is_limited else box.names(layout)
    paths = [layout.inbox / name for name in names if not is_postponed(view, name)]
    found = [_look(view, line(path.name), path) for path in paths if not walk.is_folder(path)]
    messages = [planned for planned, _ in found]
    return [*messages, *_planned_specs(view, {spec for _, spec in found}, scope)]


def plan_document(found: Sequence[Planned], left: Sequence[NotTaken]) -> dict[str, object]:
    """Return what a pass would do, and what it would leave, as programs get it."""
    return {"planned": [item._asdict() for item in found], **left_document(left)}


def left_document(left: Sequence[NotTaken]) -> dict[str, object]:
    """Return the specs that no pass takes as programs get them."""
    return {"not_taken": [item._asdict() for item in left]}


def commands(layout: Layout) -> Iterator[BroughtCommand]:
    """Yield what routines and specs of the project may make treadle run."""
    for path in routine.scripts(layout):
        name = layout.relative(path)
        yield BroughtCommand("routine", name, name)
    for name in specs.names(layout):
        yield BroughtCommand("spec", f"the checks of {line(name)}", specs.path_of(name))


def _look(
    view: InboxView, name: str, path: Path, data: bytes | None = None
) -> tuple[Planned, str | None]:
    """Return what a pass would do about a file, and the spec that it asks for."""
    file = decide.read(view, path, data=data)
    found = decide.decide(view, file, None) if isinstance(file, Known) else file
    row, job = found.row, found.job
    is_new = isinstance(file, Known) and file.is_new
    is_numbered = row and not (is_new and (not row.chain or view.store.message(row.message_id)))
    would, reason = _in_words(found.action, job)
    planned = Planned(
        name=name,
        message_id=row.message_id if row and is_numbered else None,
        routine=job.choice.routine.name if job else (row.routine if row else None),
        reason=reason,
        would=would,
    )
    return planned, job.spec_name if job else None


def _in_words(action: Action, job: ReadyMessage | None) -> tuple[str, str]:
    """Return how an action is called, and why it is taken."""
    match action:
        case Bury(error):
            return "dead letter", error.message
        case PutAside():
            return "duplicate", "it was delivered before"
        case Wait(_, reason):
            return "nothing", reason
        case AskFirst(question):
            return "ask", question.summary
        case Proceed("run"):
            return "run", job.choice.reason if job else ""
        case Proceed(how, run_id):
            return how, f"run {run_id} {'passed' if how == 'land' else 'was cut off'}"


def _planned_specs(
    view: InboxView, asked: Collection[str | None], scope: Scope
) -> Iterator[Planned]:
    """Yield the specs that no message in the inbox asks for."""
    done = view.processed
    for name in specs.names(view.layout):
        if name in asked or name in done or (scope.is_limited and name not in scope.only):
            continue
        found = decide_spec(view, name)
        row = found.row
        path = view.layout.inbox / (f"{row.message_id}.md" if row else name)
        if found.next in ("leave", "wait"):
            known = row.message_id if row else None
            yield Planned(name, known, found.seen.wish.routine, found.reason, "nothing")
        elif found.next == "anew":
            data = spec_message(None, name, found.seen.wish.routine)
            yield _look(view, name, view.layout.inbox / name, data)[0]
        elif found.next == "begin" or not path.exists():
            data = spec_message(row, name, found.seen.wish.routine)
            yield _look(view, name, path, data)[0]
