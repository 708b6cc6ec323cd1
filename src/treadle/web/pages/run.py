"""Run: its timeline, its criteria round by round, what it has used, and what it says now."""

import json
from datetime import datetime

from markupsafe import Markup
from msgspec import Raw

from treadle.contract import ROLES, follows
from treadle.engine.elsewhere import fleet_run
from treadle.engine.run import memory
from treadle.engine.run.memory import RunMemory, Spent
from treadle.engine.show import report
from treadle.engine.show import view as show_view
from treadle.engine.show.view import find_run
from treadle.errors import FormatError, GitError, NotFoundError
from treadle.files import beneath, walk
from treadle.files.walk import Entry
from treadle.git import trees as git_diff
from treadle.layout import INPUT_JSON, OUTPUT_JSON, PATCH, PLAN, PROMPT, SCORECARD, VERDICT_JSON
from treadle.project.context import Context
from treadle.sandbox.mask import Mask
from treadle.store.runs import RunRow, StepRow
from treadle.store.store import Reader
from treadle.web import foreign, render
from treadle.web.foreign import Diff
from treadle.web.pages import runs
from treadle.web.render import Bar
from treadle.web.site import Document, Site, WebRequest

_EVENTS = 100
_BUDGETS = ("iterations", "minutes", "tokens", "cost_usd", "output_mb")


def document(site: Site, asked: WebRequest) -> Document:
    """Return a run as `treadle runs show --json` does."""
    with site.store() as store:
        row = find_run(store, asked.run)
        fleet_run.peek(site.project.layout, store, row)
        return show_view.run_document(site.project.layout, store, row)


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the picture, the matrix, the meters, the end of the log and the last events."""
    layout = site.project.layout
    with site.store() as store:
        row, known, steps = (
            find_run(store, asked.run),
            memory.recall(store, asked.run),
            store.steps(asked.run),
        )
        order = show_view.asked_order(layout, asked.run)
        last = store.last_seq(asked.run)
        told = store.events(asked.run, max(last - _EVENTS, 0))
        return {
            "run": row,
            "line": runs.glance(site, store, row),
            "picture": render.draw_timeline(
                _bars(site, row, steps), f"/runs/{asked.run}/steps/{{}}".format
            ),
            "matrix": _matrix(site, store, row, steps),
            "rounds": sorted({step.iteration for step in steps}),
            "meters": _meters(row, known, order),
            "log": foreign.tails_of_run(layout, row, steps, site.mask),
            "events": told[::-1],
            "earlier": max(last - _EVENTS, 0),
            "where": known.landing_words,
            "is_in": known.landed_commit is not None,
            "next": memory.next_commands(row, known),
            "budget": known.budget_needed,
            "comments": memory.unheard_comments(store, asked.run),
            "storms": [s.sentence for s in memory.clashes(store, [row])],
        }


def resume(asked: WebRequest) -> list[str]:
    """Go on with a stopped run."""
    fields = {name: asked.fields.get(name, "").strip() for name in ("budget", "approve")}
    options = [f"--{name}={value}" for name, value in fields.items() if value]
    return ["run", f"--resume={asked.run}", *options, "--wait"]


def _bars(site: Site, row: RunRow, steps: list[StepRow]) -> list[Bar]:
    found = [render.step_bar(step._asdict()) for step in steps]
    if row.status != "running":
        return found
    role = follows(steps[-1].role) if steps else ROLES[0]
    start = found[-1].end if found else render.moment(row.created_at) or site.now()
    number = row.current_step_index + 1
    return [*found, Bar(number, role, row.iteration, "running", start, site.now(), "works now")]


def _matrix(
    site: Site, store: Reader, row: RunRow, steps: list[StepRow]
) -> dict[str, dict[int, Document]]:
    """Return for each criterion what each iteration's check claimed and observed."""
    checks = [check for check in store.checks(row.run_id) if check.phase == "check"]
    found: dict[str, dict[int, Document]] = {}
    for step in (step for step in steps if step.role == "check"):
        seen = {c.criterion_id: c.passed for c in checks if c.step_index == step.step_index}
        said = show_view.claims(site.project.layout, step)
        for id_ in {**seen, **said}:
            cell: Document = {"claimed": said.get(id_), "observed": seen.get(id_)}
            found.setdefault(id_, {})[step.iteration] = cell
    return found


def _meters(row: RunRow, known: RunMemory, order: dict[str, object]) -> list[Document]:
    """Return what is used of each budget that has a limit or is touched."""
    budgets = runs.budgets(order).items()
    limits = {name: value for name, value in budgets if isinstance(value, int | float)}
    used = {"iterations": row.iteration, **(known.spent or Spent())._asdict()}
    return [
        {"name": name, "used": used[name], "limit": limits.get(f"max_{name}")}
        for name in _BUDGETS
        if f"max_{name}" in limits or used[name] >= 0.01
    ]


_SIZE = 100
_MAX = 1000


def events_document(site: Site, asked: WebRequest) -> Document:
    """Return a page of events as `treadle runs events --json` does."""
    size = min(asked.number("limit", _SIZE), _MAX)
    with site.store() as store:
        rows = store.event_rows(asked.run, asked.number("after", 0), size)
    return {"events": [_event(*row) for row in rows]}


def events_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add where the pages before and after begin."""
    after = asked.number("after", 0)
    with site.store() as store:
        last = store.last_seq(asked.run)
    return {
        "run_id": asked.run,
        "last": last,
        "before": max(after - _SIZE, 0) if after else None,
        "next": after + _SIZE if after + _SIZE < last else None,
    }


def _event(seq: int, ts: str, type_: str, message: str, data: str | None) -> Document:
    """Return an event; what is JSON already is neither read nor written again."""
    kept = Raw(data.encode()) if data is not None else None
    return {"seq": seq, "ts": ts, "type": type_, "message": message, "data": kept}


_MAX_TEXT = 1 << 20
_TEXTS = {"prompt": f"logs/{PROMPT}", "request": INPUT_JSON, "response": OUTPUT_JSON}
_PATCHES = (PATCH, "files/workspace.diff")


def step_document(site: Site, asked: WebRequest) -> Document:
    """Return the step's row as in `treadle runs show --json`, and its files."""
    layout = site.project.layout
    with site.store() as store:
        row = find_run(store, asked.run)
        fleet_run.peek(layout, store, row)
        step = _find_step(store.steps(row.run_id), asked)
    files = [e._asdict() for e in _step_entries(site, step) if not e.is_folder]
    return step._asdict() | {"files": files, "folder": f"{layout.root}/{step.step_dir}"}


def step_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what stands in the files that matter."""
    layout = site.project.layout
    run = layout.run(asked.run)
    with site.store() as store:
        row, steps = find_run(store, asked.run), store.steps(asked.run)
        step = _find_step(steps, asked)
        usage = [item for item in store.usage(asked.run) if item.step_index == step.step_index]
        kv = store.kv(asked.run)
    patch = next((text for name in _PATCHES if (text := _step_text(site, step, name))), None)
    card = _step_text(site, step, SCORECARD) or _step_text(site, step, PLAN)
    numbers = [item.step_index for item in steps]
    return {
        "run": row,
        "step": step,
        "numbers": numbers,
        "usage": usage,
        "texts": {name: _laid_out(_step_text(site, step, path)) for name, path in _TEXTS.items()},
        "verdict": _laid_out(_step_text(site, step, VERDICT_JSON)),
        "card": foreign.markdown_markup(card) if card else None,
        "logs": foreign.tails_of_step(run, layout, step, site.mask),
        "diff": foreign.parse_diff(patch) if patch else None,
        "protected": _protected_change(site, step, memory.decode(kv)),
        "base": f"/runs/{asked.run}/files/steps/{step.step_dir.rpartition('/')[2]}/",
        "comments": [item for item in memory.comments_of(kv) if item.step_index == step.step_index],
        "can_comment": row.status in ("running", "stopped"),
    }


def _protected_change(site: Site, step: StepRow, known: RunMemory) -> Document | None:
    """Return the change of protected files that this check found, and what came of it."""
    text = _step_text(site, step, f"files/{memory.PROTECTED_DIFF}")
    if text is None:
        return None
    is_last = (known.protected.diff if known.protected else "").startswith(f"{step.step_dir}/")
    return {
        "diff": foreign.parse_diff(text),
        "words": known.protected_words if is_last else None,
    }


def comment(asked: WebRequest) -> list[str]:
    """Say something about a step's change."""
    words = ["comment", f"--step={_step_number(asked)}"]
    if path := asked.fields.get("file", "").strip():
        words.append(f"--file={path}")
    if line := asked.number("line", 0):
        words.append(f"--line={line}")
    return [*words, "--", asked.run, asked.text("text", "TEXT")]


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
        return walk.walk(site.project.layout.root / step.step_dir)
    except (FormatError, OSError):
        return []


def _step_text(site: Site, step: StepRow, name: str) -> str | None:
    try:
        with beneath.opened(site.project.layout.root / step.step_dir, name) as handle:
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


_STYLES = ("treadle.css", "report.css")


def report_html(project: Context, store: Reader, row: RunRow, now: datetime) -> str:
    """Return goal, criteria with evidence, timeline, changes and cost of a run."""
    views = show_view.criteria(project.layout, store, row)
    steps = store.steps(row.run_id)
    folder = project.layout.run(row.run_id).steps
    held, total = show_view.counts(views)
    styles = "\n".join((render.STATIC / name).read_text("utf-8") for name in _STYLES)
    mask = Mask(project.env)
    text = (
        render.environment()
        .get_template("report.html")
        .render(
            styles=Markup(styles),
            project=project.layout.root.name,
            read_only=True,
            doc=show_view.run_document(project.layout, store, row),
            run=row,
            held=held,
            total=total,
            where=memory.recall(store, row.run_id).landing_words,
            evidence=[
                (view.id, report.tail(folder / (view.evidence or "")))
                for view in views
                if view.observed is not None
            ],
            picture=render.draw_timeline([render.step_bar(step._asdict()) for step in steps]),
            diff=_changes(project, row, mask),
            usage=store.usage(row.run_id),
            now=now,
        )
    )
    return mask.text(text)


def _changes(project: Context, row: RunRow, mask: Mask) -> Diff | None:
    if not row.base_commit or not row.head_commit:
        return None
    try:
        found = git_diff.diff_text(project.repo, row.base_commit, row.head_commit)
        return foreign.parse_diff(mask.text(found.decode(errors="replace")))
    except GitError:
        return None
