"""Step: what an agent was asked, what it answered, and what it changed."""

import json

from treadle.engine.elsewhere import fleet_run
from treadle.engine.run import memory
from treadle.engine.run.memory import RunMemory
from treadle.engine.show.view import find_run
from treadle.errors import FormatError, NotFoundError
from treadle.files import beneath, walk
from treadle.files.walk import Entry
from treadle.layout import INPUT_JSON, OUTPUT_JSON, PATCH, PLAN, PROMPT, SCORECARD, VERDICT_JSON
from treadle.store.runs import StepRow
from treadle.web import foreign
from treadle.web.site import Document, Site, WebRequest

_MAX = 1 << 20
_TEXTS = {"prompt": f"logs/{PROMPT}", "request": INPUT_JSON, "response": OUTPUT_JSON}
_PATCHES = (PATCH, "files/workspace.diff")


def document(site: Site, asked: WebRequest) -> Document:
    """Return the step's row as in `treadle runs show --json`, and its files."""
    layout = site.project.layout
    with site.store() as store:
        row = find_run(store, asked.run)
        fleet_run.peek(layout, store, row)
        step = _find(store.steps(row.run_id), asked)
    files = [e._asdict() for e in _entries(site, step) if not e.is_folder]
    return step._asdict() | {"files": files, "folder": f"{layout.root}/{step.step_dir}"}


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what stands in the files that matter."""
    layout = site.project.layout
    run = layout.run(asked.run)
    with site.store() as store:
        row, steps = find_run(store, asked.run), store.steps(asked.run)
        step = _find(steps, asked)
        usage = [item for item in store.usage(asked.run) if item.step_index == step.step_index]
        kv = store.kv(asked.run)
    patch = next((text for name in _PATCHES if (text := _text(site, step, name))), None)
    card = _text(site, step, SCORECARD) or _text(site, step, PLAN)
    numbers = [item.step_index for item in steps]
    return {
        "run": row,
        "step": step,
        "numbers": numbers,
        "usage": usage,
        "texts": {name: _shown(_text(site, step, path)) for name, path in _TEXTS.items()},
        "verdict": _shown(_text(site, step, VERDICT_JSON)),
        "card": foreign.markdown_markup(card) if card else None,
        "logs": foreign.tails_of_step(run, layout, step, site.mask),
        "diff": foreign.parse_diff(patch) if patch else None,
        "protected": _protected(site, step, memory.decode(kv)),
        "base": f"/runs/{asked.run}/files/steps/{step.step_dir.rpartition('/')[2]}/",
        "comments": [item for item in memory.comments_of(kv) if item.step_index == step.step_index],
        "can_comment": row.status in ("running", "stopped"),
    }


def _protected(site: Site, step: StepRow, known: RunMemory) -> Document | None:
    """Return the change of protected files that this check found, and what came of it."""
    text = _text(site, step, f"files/{memory.PROTECTED_DIFF}")
    if text is None:
        return None
    is_last = (known.protected.diff if known.protected else "").startswith(f"{step.step_dir}/")
    return {
        "diff": foreign.parse_diff(text),
        "words": known.protected_words if is_last else None,
    }


def comment(asked: WebRequest) -> list[str]:
    """Say something about a step's change."""
    words = ["comment", f"--step={_number(asked)}"]
    if path := asked.fields.get("file", "").strip():
        words.append(f"--file={path}")
    if line := asked.number("line", 0):
        words.append(f"--line={line}")
    return [*words, "--", asked.run, asked.text("text", "TEXT")]


def _number(asked: WebRequest) -> int:
    text = asked.names["step"]
    if text.isascii() and text.isdecimal() and len(text) < 7:
        return int(text)
    raise NotFoundError(f"no step is called {text!r}", fix=[f"treadle runs show {asked.run}"])


def _find(steps: list[StepRow], asked: WebRequest) -> StepRow:
    number = _number(asked)
    for step in steps:
        if step.step_index == number:
            return step
    raise NotFoundError(
        f"run {asked.run} has no step {number} yet", fix=[f"treadle runs show {asked.run}"]
    )


def _entries(site: Site, step: StepRow) -> list[Entry]:
    try:
        return walk.walk(site.project.layout.root / step.step_dir)
    except (FormatError, OSError):
        return []


def _text(site: Site, step: StepRow, name: str) -> str | None:
    try:
        with beneath.opened(site.project.layout.root / step.step_dir, name) as handle:
            return site.mask.text(handle.read(_MAX).decode(errors="replace"))
    except NotFoundError:
        return None


def _shown(text: str | None) -> str | None:
    """Lay JSON out for reading; anything else is shown as it is."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(found, indent=2, ensure_ascii=False)
