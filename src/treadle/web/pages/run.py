"""Run: why it stands where it does, its criteria round by round, what it used, its steps."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Raw

from treadle.contract import ROLES, follows
from treadle.engine.elsewhere import fleet_run
from treadle.engine.run import comments, days, memory
from treadle.engine.run.memory import RunMemory, Spent
from treadle.engine.show import compare, ends, verdicts
from treadle.engine.show import view as show_view
from treadle.engine.show.verdicts import SeenCriterion, StepVerdict
from treadle.engine.show.view import find_run
from treadle.layout import SCORECARD, Layout
from treadle.store.runs import RunRow, StepRow
from treadle.store.store import Reader
from treadle.web import foreign, render
from treadle.web.pages import conflicts, runs
from treadle.web.render import Bar
from treadle.web.site import Document, Site, WebRequest

# What a person approves, as it is called in the command and as it is shown.
APPROVED = {
    "plan": "the plan",
    "change": "the change",
    "protected": "the change of protected files",
}
_BUDGETS = ("iterations", "minutes", "tokens", "cost_usd", "output_mb")
_ROUNDS = 50  # iterations that a matrix shows at once
_SIZE = 100
_MAX = 1000


def document(site: Site, asked: WebRequest) -> Document:
    """Return a run as `treadle runs show --json` does."""
    with site.store() as store:
        row = find_run(store, asked.run)
        fleet_run.peek(site.project.layout, store, row)
        return show_view.run_document(site.project.layout, store, row)


def compare_document(site: Site, asked: WebRequest) -> Document:
    """Return a run beside the others of its set as `treadle compare --json` does."""
    with site.store() as store:
        row = compare.find_tried(store, asked.run)
        return compare.document(site.project.layout, store, row)


def compare_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the table that the command prints."""
    return {"table": compare.table(found)}


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add why it has not passed, the picture, the matrix, the meters and the end of the log."""
    layout = site.project.layout
    with site.store() as store:
        steps, checks = store.steps(asked.run), store.checks(asked.run)
        seen = verdicts.run_verdicts(layout, steps, checks)
        around = head(site, store, asked.run, seen)
        row, known = find_run(store, asked.run), memory.recall(store, asked.run)
        order = show_view.asked_order(layout, asked.run)
        return around | {
            "why": why(layout, store, row, steps),
            "picture": render.draw_timeline(
                _bars(site, row, seen), f"/runs/{asked.run}/steps/{{}}".format
            ),
            "matrix": Matrix.of(seen, asked.number("until", 0)),
            "evidence_url": partial(evidence, asked.run),
            "meters": _meters(row, known, order),
            "log": foreign.tails_of_run(layout, row, steps, site.mask),
            "trial": known.trial,
            "clashing": conflicts.in_short(conflicts.of_run(store, row)),
        }


def head(
    site: Site, store: Reader, run_id: str, seen: Sequence[StepVerdict] | None = None
) -> Document:
    """Return what stands above every page of a run: its state, and what can be done."""
    row, known = find_run(store, run_id), days.recall(store, run_id)
    if seen is None:
        last = [it for it in store.steps(run_id) if it.role == "check"][-1:]
        seen = verdicts.run_verdicts(site.project.layout, last, store.checks(run_id))
    refusal = known.land_refused
    return {
        "run": row,
        "line": runs.glance(site, store, row),
        "check": verdicts.last_check(seen),
        "reason": known.reason,
        "resume_at": known.resume_at,
        "where": known.landing_words,
        "protected": known.protected_words,
        "is_in": known.landed_commit is not None,
        "to_rebase": refusal is not None and f"treadle rebase {run_id}" in refusal.fix,
        "next": show_view.ways_on(store, row, known),
        "can_resume": row.status in ("stopped", "failed") and not memory.is_queued(row, known),
        "budget": known.budget_needed,
        "approves": _approves(row, known),
        "comments": comments.unheard(store, run_id),
    }


def _approves(row: RunRow, known: RunMemory) -> str | None:
    """Name what a person can approve, if the run waits for that."""
    if row.status != "stopped":
        return None
    if known.waiting:
        return APPROVED[known.waiting.what]
    is_protected = known.reason_code == memory.WAITS_FOR_APPROVAL and known.protected
    return APPROVED["protected"] if is_protected else None


def resume(asked: WebRequest) -> list[str]:
    """Go on with a stopped run."""
    names = ("budget", "approve", "reject")
    fields = {name: asked.fields.get(name, "").strip() for name in names}
    options = [f"--{name}={value}" for name, value in fields.items() if value]
    return ["run", f"--resume={asked.run}", *options, "--wait"]


class WhyNot(NamedTuple):
    """One reason why a run has not passed, with the end of what was said about it."""

    name: str
    command: str
    lines: str
    note: str | None = None
    log: str | None = None  # the file below the run's folder
    step: StepRow | None = None


def why(layout: Layout, store: Reader, row: RunRow, steps: Sequence[StepRow]) -> list[WhyNot]:
    """Return the commands and claims for which a run has not passed, or what its step said."""
    found = []
    for it in ends.failed_commands(layout, store, row):
        step = next((s for s in steps if _is_in(layout, s, it.log)), None)
        log, said = _below(layout, row, it.log), "\n".join(it.lines)
        found.append(WhyNot(it.name, it.command, said, it.note, log, step))
    found += _claims(layout, store, row, steps)
    if found or row.status not in ("failed", "stopped") or not steps:
        return found
    last = verdicts.step_verdict(layout, steps[-1], ())
    return [_failed_step(layout, row, last.step)] if last.outcome == "fail" else []


def _claims(layout: Layout, store: Reader, row: RunRow, steps: Sequence[StepRow]) -> list[WhyNot]:
    """Return the criteria without a command that the last check claims to fail."""
    last = next((it for it in reversed(steps) if it.role == "check"), None)
    if last is None or row.status == "passed":
        return []
    card = layout.shared / last.step_dir / SCORECARD
    lines, log = "\n".join(ends.last_lines(card)), _below(layout, row, str(card))
    return [
        WhyNot(it.id, "", "" if it.evidence else lines, it.evidence, lines and log, last)
        for it in show_view.criteria(layout, store, row)
        if it.observed is None and it.claimed is False
    ]


def _failed_step(layout: Layout, row: RunRow, step: StepRow) -> WhyNot:
    logs = layout.shared / step.step_dir / "logs"
    said = ((name, ends.last_lines(logs / name)) for name in foreign.SAID)
    name, lines = next(((name, it) for name, it in said if it), (None, ()))
    log = name and _below(layout, row, str(logs / name))
    title = f"step {step.step_index} {step.role}"
    return WhyNot(title, "", "\n".join(lines), step.summary, log, step)


def _below(layout: Layout, row: RunRow, log: str) -> str | None:
    folder = layout.run(row.run_id).folder
    return Path(log).relative_to(folder).as_posix() if Path(log).is_relative_to(folder) else None


def _is_in(layout: Layout, step: StepRow, log: str) -> bool:
    return Path(log).is_relative_to(layout.shared / step.step_dir)


def _bars(site: Site, row: RunRow, seen: Sequence[StepVerdict]) -> list[Bar]:
    found = [render.step_bar(it.step._asdict() | {"status": it.outcome}) for it in seen]
    if row.status != "running":
        return found
    role = follows(seen[-1].step.role) if seen else ROLES[0]
    start = found[-1].end if found else render.moment(row.created_at) or site.now()
    number = row.current_step_index + 1
    return [*found, Bar(number, role, row.iteration, "running", start, site.now(), "works now")]


class Matrix(NamedTuple):
    """What each iteration's last check claimed and observed, by criterion and iteration."""

    rounds: tuple[int, ...]
    cells: dict[str, dict[int, tuple[StepRow, SeenCriterion]]]
    earlier: int | None  # the last iteration that is left out at the front
    later: bool  # whether any is left out at the end

    @classmethod
    def of(cls, seen: Sequence[StepVerdict], until: int = 0) -> "Matrix":
        """Return the last iterations up to one, or of all."""
        checks = {it.step.iteration: it for it in seen if it.criteria}
        every = sorted({it.step.iteration for it in seen})
        fitting = [it for it in every if not until or it <= until]
        rounds = tuple(fitting[-_ROUNDS:])
        cells: dict[str, dict[int, tuple[StepRow, SeenCriterion]]] = {}
        for number in rounds:
            for it in checks[number].criteria if number in checks else ():
                cells.setdefault(it.id, {})[number] = (checks[number].step, it)
        earlier = fitting[-_ROUNDS - 1] if len(fitting) > _ROUNDS else None
        return cls(rounds, cells, earlier, len(fitting) < len(every))


def evidence(run_id: str, step: StepRow, cell: SeenCriterion) -> str:
    """Return where the evidence of a cell is: its command's log, else its step."""
    if cell.log:
        return render.log_url(run_id, f"steps/{cell.log}")
    return f"/runs/{run_id}/steps/{step.step_index}"


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


def steps_document(site: Site, asked: WebRequest) -> Document:
    """Return a page of steps, each as `treadle runs show --json` has it, the newest first."""
    layout = site.project.layout
    with site.store() as store:
        row = find_run(store, asked.run)
        fleet_run.peek(layout, store, row)
        every = store.steps(row.run_id)[::-1]
        before = asked.number("before", 0)
        rest = [it for it in every if not before or it.step_index < before]
        seen = verdicts.run_verdicts(layout, rest[:_SIZE], store.checks(row.run_id))
    told = [show_view.told_step(it) for it in seen]
    return {"run_id": row.run_id, "steps": told, "total": len(every), "left": len(rest) - len(told)}


def steps_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what stands above it."""
    with site.store() as store:
        return head(site, store, asked.run)


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
        around = head(site, store, asked.run)
    return around | {
        "last": last,
        "newest": max(last - _SIZE, 0),
        "before": max(after - _SIZE, 0) if after else None,
        "later": after + _SIZE if after + _SIZE < last else None,
    }


def _event(seq: int, ts: str, type_: str, message: str, data: str | None) -> Document:
    """Return an event; what is JSON already is neither read nor written again."""
    kept = Raw(data.encode()) if data is not None else None
    return {"seq": seq, "ts": ts, "type": type_, "message": message, "data": kept}
