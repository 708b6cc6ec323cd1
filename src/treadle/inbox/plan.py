"""Say what a pass would do, and do nothing."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from treadle.config.schema import Config
from treadle.errors import FormatError, NotFoundError
from treadle.files import walk
from treadle.inbox import box, register, routines, select, specs
from treadle.inbox.message import Message, Place
from treadle.layout import Layout
from treadle.project.trust import Command
from treadle.store.reader import Reader
from treadle.tasks import questions

_NEW = "new"


class Planned(NamedTuple):
    """One message or spec, the routine it would get and why, or what is wrong with it."""

    name: str
    message_id: str | None
    routine: str | None
    reason: str
    would: str


def plan(layout: Layout, config: Config, store: Reader) -> list[Planned]:
    """Return what a pass would begin with; a router of the user's own is not asked."""
    return [*_messages(layout, config, store), *_specs(layout, config, store)]


def document(found: Sequence[Planned]) -> dict[str, object]:
    """Return what a pass would do as programs get it."""
    return {"planned": [item._asdict() for item in found]}


def commands(layout: Layout) -> Iterator[Command]:
    """Yield what routines and specs of the project may make treadle run."""
    for path in routines.scripts(layout):
        name = layout.relative(path)
        yield Command("routine", name, name)
    for name in specs.names(layout):
        yield Command("spec", f"the checks of {box.show(name)}", specs.path_of(name))


def _messages(layout: Layout, config: Config, store: Reader) -> Iterator[Planned]:
    for name in box.names(layout):
        path = layout.inbox / name
        if walk.is_folder(path):
            continue
        try:
            message = register.preview(store, path, lambda: _NEW)
        except FormatError as error:
            yield Planned(box.show(name), None, None, error.message, "dead letter")
            continue
        row = store.message(message.id)
        if row and row.status == "held" and questions.is_open(store, row.reason or ""):
            yield Planned(box.show(name), row.message_id, row.routine, row.reason or "", "nothing")
            continue
        is_new = message.place.chain == _NEW
        yield _planned(layout, config, box.show(name), message, None if is_new else message.id)


def _specs(layout: Layout, config: Config, store: Reader) -> Iterator[Planned]:
    for name in specs.unprocessed(layout):
        row = store.spec_message(name)
        if row is None:
            message = Message(Place(_NEW, 0), "spec", specs.path_of(name), None, {}, b"")
            yield _planned(layout, config, name, message, None)
        elif row.status == "dead":
            yield Planned(name, row.message_id, row.routine, "it is a dead letter", "nothing")


def _planned(
    layout: Layout, config: Config, name: str, message: Message, message_id: str | None
) -> Planned:
    try:
        spec = specs.read(layout, message.input_file) if message.type == "spec" else None
        if spec and not message.routine:
            message = message._replace(routine=spec.routine)
        found = select.select(layout, config, message, spec, None)
    except (FormatError, NotFoundError) as error:
        return Planned(name, message_id, None, error.message, "dead letter")
    return Planned(name, message_id, found.routine.name, found.choice.reason, "run")
