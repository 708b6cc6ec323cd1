"""Runs: what works, what worked, and how each of them stands."""

from typing import NamedTuple, cast

from treadle.contract.role import RunStatus
from treadle.engine import documents, review, spending
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.web.site import Asked, Document, Site

STATUSES = ("running", "passed", "failed", "stopped")
_SIZE = 50
_MAX = 500


class Line(NamedTuple):
    """One run at a glance."""

    row: RunRow
    agents: tuple[str, ...]
    max_iterations: object
    held: int
    total: int
    spent: str


def document(site: Site, asked: Asked) -> Document:
    """Return a page of runs as `treadle runs list --json` does."""
    with site.store() as store:
        return documents.runs(store, _rows(store, asked))


def view(site: Site, asked: Asked, found: Document) -> Document:
    """Add to each run who works on it, how far it is, and what it has cost."""
    with site.store() as store:
        rows = _rows(store, asked)
        lines = [glance(site, store, row) for row in rows]
    more = rows[-1].run_id if len(rows) == _size(asked) else None
    return {"lines": lines, "statuses": STATUSES, "more": more}


def start(asked: Asked) -> list[str]:
    """Start a run for a goal."""
    words = ["run", f"--goal={asked.text('goal', 'GOAL')}"]
    if text := asked.fields.get("criterion", "").strip():
        words.append(f"--ac={text}")
    if command := asked.fields.get("command", "").strip() or (asked.is_example and "COMMAND"):
        words.append(f"--verify=AC1={command}")
    return [*words, "--wait"]


def _rows(store: Reader, asked: Asked) -> list[RunRow]:
    status = asked.fields.get("status")
    known = cast(RunStatus, status) if status in STATUSES else None
    page = _size(asked), asked.fields.get("before") or None, known
    text = asked.fields.get("q", "").strip()
    return store.runs_like(text, *page) if text else store.runs(*page)


def _size(asked: Asked) -> int:
    return min(max(asked.number("limit", _SIZE), 1), _MAX)


def glance(site: Site, store: Reader, row: RunRow) -> Line:
    """Sum one run up."""
    layout = site.project.layout
    order = review.order(layout, row.run_id)
    held, total = review.counts(review.criteria(layout, store, row))
    return Line(row, _agents(order), _limit(order), held, total, spent(store, row.run_id))


def spent(store: Reader, run_id: str) -> str:
    """Say in a few words what a run has used."""
    kept = store.kv_value(run_id, "spent")
    minutes = kept.get("minutes") if isinstance(kept, dict) else None
    said = [f"{minutes:.1f} min"] if isinstance(minutes, float) and minutes >= 0.05 else []
    used = spending.total(store.usage(run_id))
    tokens = int(str(used["input_tokens"])) + int(str(used["output_tokens"]))
    said += [f"{tokens:,} tok"] if tokens else []
    said += [f"${used['cost_usd']:.2f}"] if used["cost_usd"] else []
    return " · ".join(said)


def _agents(order: dict[str, object]) -> tuple[str, ...]:
    found = order.get("agents")
    named = found.values() if isinstance(found, dict) else ()
    names = [str(item.get("name")) for item in named if isinstance(item, dict)]
    return tuple(dict.fromkeys(names))


def _limit(order: dict[str, object]) -> object:
    budgets = order.get("budgets")
    return budgets.get("max_iterations") if isinstance(budgets, dict) else None
