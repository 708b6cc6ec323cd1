"""Read the end of a log that may still grow."""

import json
import os
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from treadle.errors import NotFoundError
from treadle.files import beneath
from treadle.layout import LIVE, Layout, RunLayout
from treadle.sandbox.mask import Mask
from treadle.store.runs import RunRow, StepRow
from treadle.web import ansi

_BYTES = 64 << 10
_LINES = 300
_EVENTS = "events.jsonl"
_NAMES = (_EVENTS, "stderr.txt", "stdout.txt")


class Tail(NamedTuple):
    """The end of one log."""

    name: str
    text: Markup
    is_cut: bool


def of_run(layout: Layout, row: RunRow, steps: list[StepRow], mask: Mask) -> list[Tail]:
    """Return what the step that works now has said, or the last one."""
    run = layout.run(row.run_id)
    if row.status == "running":
        return of_folder(run.folder, [f"{run.live.name}/{name}" for name in _NAMES], mask)
    return of_step(run, layout, steps[-1], mask) if steps else []


def of_step(run: RunLayout, layout: Layout, step: StepRow, mask: Mask) -> list[Tail]:
    """Return the ends of a step's logs."""
    folder = (layout.root / step.step_dir).relative_to(run.folder).as_posix()
    return of_folder(run.folder, [f"{folder}/logs/{name}" for name in _NAMES], mask)


def of_folder(folder: Path, names: list[str], mask: Mask) -> list[Tail]:
    """Return the ends of the files that are there and say something."""
    found = []
    for name in names:
        try:
            text, is_cut = end(folder, name, mask)
        except NotFoundError:
            continue
        if name.endswith(_EVENTS):
            text = "\n".join(filter(None, map(_told, text.split("\n"))))
        if text.strip():
            found.append(Tail(name, ansi.render(text), is_cut))
    return found


def _told(line: str) -> str:
    """Return what an agent does as people read it."""
    try:
        event = json.loads(line)
    except ValueError:
        return ""  # not whole yet
    return f"{event['ts'][11:19]} {event['kind']:<10} {event['message']}"


def end(folder: Path, name: str, mask: Mask) -> tuple[str, bool]:
    """Return the last lines of a file, and whether there are more.

    What is written right now is not masked yet: more is read than shown, because a key may
    begin before, and a line that grows waits until it is whole, because it may be half a secret.
    """
    with beneath.opened(folder, name) as handle:
        size = os.fstat(handle.fileno()).st_size
        handle.seek(max(size - 2 * _BYTES, 0))
        text = mask.text(handle.read(2 * _BYTES).decode(errors="replace"))
    if name.startswith(f"{LIVE}/"):
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    lines = text[-_BYTES:].split("\n")
    if size > _BYTES:
        lines = lines[1:]
    return "\n".join(lines[-_LINES:]), size > _BYTES or len(lines) > _LINES
