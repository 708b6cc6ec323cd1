"""Step: what one turn was asked, answered, said and changed."""

import json

from treadle.engine.elsewhere import fleet_run
from treadle.engine.run import comments, memory
from treadle.engine.run.memory import RunMemory
from treadle.engine.show import verdicts
from treadle.engine.show import view as show_view
from treadle.engine.show.view import find_run
from treadle.errors import FormatError, NotFoundError
from treadle.files import beneath, walk
from treadle.files.walk import Entry
from treadle.layout import (
    INPUT_JSON,
    OUTPUT_JSON,
    PATCH,
    PLAN,
    PROMPT,
    SCORECARD,
    VERDICT_JSON,
    WORKSPACE_DIFF,
)
from treadle.store.runs import StepRow
from treadle.web import diff, foreign
from treadle.web.site import Document, Site, WebRequest

_MAX_TEXT = 1 << 20
_TEXTS = {"prompt": f"logs/{PROMPT}", "request": INPUT_JSON, "response": OUTPUT_JSON}
_PATCHES = (f"files/{memory.HELD_DIFF}", PATCH, f"files/{WORKSPACE_DIFF}")


def document(site: Site, asked: WebRequest) -> Document:
    """Return the step's row as in `treadle runs show --json`, and its files."""
    layout = site.project.layout
    with site.store() as store:
        row = find_run(store, asked.run)
        fleet_run.peek(layout, store, row)
        step = _find_step(store.steps(row.run_id), asked)
        told = show_view.step_document(layout, store, step)
    files = [e._asdict() for e in _step_entries(site, step) if not e.is_folder]
    return told | {"files": files, "folder": f"{layout.shared}/{step.step_dir}"}


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what stands in the files that matter."""
    layout = site.project.layout
    run = layout.run(asked.run)
    with site.store() as store:
        row, steps = find_run(store, asked.run), store.steps(asked.run)
        step = _find_step(steps, asked)
        usage = [item for item in store.usage(asked.run) if item.step_index == step.step_index]
        known = memory.recall(store, asked.run)
        seen = verdicts.step_verdict(layout, step, store.checks(asked.run)).criteria
    patch = next((text for name in _PATCHES if (text := _step_text(site, step, name))), None)
    card = _step_text(site, step, SCORECARD) or _step_text(site, step, PLAN)
    numbers = [item.step_index for item in steps]
    return {
        "run": row,
        "step": step,
        "numbers": numbers,
        "seen": seen,
        "usage": usage,
        "texts": {name: _laid_out(_step_text(site, step, path)) for name, path in _TEXTS.items()},
        "verdict": _laid_out(_step_text(site, step, VERDICT_JSON)),
        "card": foreign.markdown_markup(card) if card else None,
        "logs": foreign.tails_of_step(run, layout, step, site.mask),
        "diff": diff.paint_all(diff.parse_diff(patch)) if patch else None,
        "protected": _protected_change(site, step, known),
        "base": f"/runs/{asked.run}/files/steps/{step.step_dir.rpartition('/')[2]}/",
        "comments": [it for it in comments.read(known.others) if it.step_index == step.step_index],
    }


def _protected_change(site: Site, step: StepRow, known: RunMemory) -> Document | None:
    """Return the change of protected files that this check found, and what came of it."""
    text = _step_text(site, step, f"files/{memory.PROTECTED_DIFF}")
    if text is None:
        return None
    is_last = (known.protected.diff if known.protected else "").startswith(f"{step.step_dir}/")
    return {
        "diff": diff.paint_all(diff.parse_diff(text)),
        "words": known.protected_words if is_last else None,
    }


def _step_number(asked: WebRequest) -> int:
    text = asked.names["step"]
    if text.isascii() and text.isdecimal() and len(text) < 7:
        return int(text)
    raise NotFoundError(f"no step is called {text!r}", fix=[f"treadle runs show {asked.run}"])


def _find_step(steps: list[StepRow], asked: WebRequest) -> StepRow:
    number = _step_number(asked)
    for step in steps:
        if step.step_index == number:
            return step
    raise NotFoundError(
        f"run {asked.run} has no step {number} yet", fix=[f"treadle runs show {asked.run}"]
    )


def _step_entries(site: Site, step: StepRow) -> list[Entry]:
    try:
        return walk.walk(site.project.layout.shared / step.step_dir)
    except (FormatError, OSError):
        return []


def _step_text(site: Site, step: StepRow, name: str) -> str | None:
    try:
        with beneath.opened(site.project.layout.shared / step.step_dir, name) as handle:
            return site.mask.text(handle.read(_MAX_TEXT).decode(errors="replace"))
    except NotFoundError:
        return None


def _laid_out(text: str | None) -> str | None:
    """Lay JSON out for reading; anything else is shown as it is."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(found, indent=2, ensure_ascii=False)
