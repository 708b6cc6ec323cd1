"""Run: its timeline, its criteria round by round, what it has used, and what it says now."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Raw

from treadle.contract import ROLES, follows
from treadle.engine.elsewhere import fleet_run
from treadle.engine.run import memory
from treadle.engine.run.memory import RunMemory, Spent
from treadle.engine.show import view as show_view
from treadle.engine.show.view import find_run
from treadle.store.runs import RunRow, StepRow
from treadle.store.store import Reader
from treadle.web import draw, foreign, render
from treadle.web.draw import Bar
from treadle.web.pages import runs
from treadle.web.site import Document, Site, WebRequest

_EVENTS = 100
_BUDGETS = ("iterations", "minutes", "tokens", "cost_usd", "output_mb")


class Cell(NamedTuple):
    """What was claimed and observed of one criterion in one iteration."""

    claimed: bool | None
    observed: bool | None


class Meter(NamedTuple):
    """One budget."""

    name: str
    used: float
    limit: float | None

    @property
    def share(self) -> float:
        """Return how much of it is used, from 0 to 100."""
        return min(self.used / self.limit, 1) * 100 if self.limit else 0.0


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
            "picture": draw.draw_timeline(
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


def stop(asked: WebRequest) -> list[str]:
    """Ask a run to stop."""
    return ["stop", asked.run, "--reason=stopped on the page"]


def resume(asked: WebRequest) -> list[str]:
    """Go on with a stopped run."""
    fields = {name: asked.fields.get(name, "").strip() for name in ("budget", "approve")}
    options = [f"--{name}={value}" for name, value in fields.items() if value]
    return ["run", f"--resume={asked.run}", *options, "--wait"]


def land(asked: WebRequest) -> list[str]:
    """Bring a passed run into its branch."""
    return ["land", asked.run, "--wait"]


def undo(asked: WebRequest) -> list[str]:
    """Take a landed run out again."""
    return ["undo", asked.run, "--wait"]


def _bars(site: Site, row: RunRow, steps: list[StepRow]) -> list[Bar]:
    found = [draw.step_bar(step._asdict()) for step in steps]
    if row.status != "running":
        return found
    role = follows(steps[-1].role) if steps else ROLES[0]
    start = found[-1].end if found else render.moment(row.created_at) or site.now()
    number = row.current_step_index + 1
    return [*found, Bar(number, role, row.iteration, "running", start, site.now(), "works now")]


def _matrix(
    site: Site, store: Reader, row: RunRow, steps: list[StepRow]
) -> dict[str, dict[int, Cell]]:
    """Return for each criterion what each iteration's check claimed and observed."""
    checks = [check for check in store.checks(row.run_id) if check.phase == "check"]
    found: dict[str, dict[int, Cell]] = {}
    for step in (step for step in steps if step.role == "check"):
        seen = {c.criterion_id: c.passed for c in checks if c.step_index == step.step_index}
        said = show_view.claims(site.project.layout, step)
        for id_ in {**seen, **said}:
            cell = Cell(said.get(id_), seen.get(id_))
            found.setdefault(id_, {})[step.iteration] = cell
    return found


def _meters(row: RunRow, known: RunMemory, order: Mapping[str, object]) -> list[Meter]:
    budgets = order.get("budgets")
    limits = budgets if isinstance(budgets, dict) else {}
    used = {"iterations": row.iteration, **(known.spent or Spent())._asdict()}
    found = [
        Meter(name, _number(used.get(name)) or 0.0, _number(limits.get(f"max_{name}")))
        for name in _BUDGETS
    ]
    return [meter for meter in found if meter.limit is not None or meter.used >= 0.01]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


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
