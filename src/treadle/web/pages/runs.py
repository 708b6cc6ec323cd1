"""Runs and this machine: what works and worked, what it cost, what is kept, what is healthy."""

import os
from datetime import date, timedelta
from itertools import islice
from pathlib import Path
from typing import cast

from treadle.contract import RunStatus
from treadle.engine import health, lock
from treadle.engine.show import view as show_view
from treadle.errors import TreadleError
from treadle.files import walk
from treadle.ids import is_run_id
from treadle.project.context import workspaces
from treadle.store import address
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.web import render
from treadle.web.site import Document, Site, WebRequest

STATUSES = ("running", "passed", "failed", "stopped")
_SIZE = 50
_MAX = 500


def document(site: Site, asked: WebRequest) -> Document:
    """Return a page of runs as `treadle runs list --json` does."""
    with site.store() as store:
        return show_view.runs_document(store, _rows(store, asked))


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add to each run who works on it, how far it is, and what it has cost."""
    with site.store() as store:
        rows = _rows(store, asked)
        lines = [glance(site, store, row) for row in rows]
    more = rows[-1].run_id if len(rows) == _size(asked) else None
    return {"lines": lines, "statuses": STATUSES, "more": more}


def start(asked: WebRequest) -> list[str]:
    """Start a run for a goal."""
    words = ["run", f"--goal={asked.text('goal', 'GOAL')}"]
    if text := asked.fields.get("criterion", "").strip():
        words.append(f"--ac={text}")
    if command := asked.fields.get("command", "").strip() or (asked.is_example and "COMMAND"):
        words.append(f"--verify=AC1={command}")
    return [*words, "--wait"]


def _rows(store: Reader, asked: WebRequest) -> list[RunRow]:
    status = asked.fields.get("status")
    known = cast(RunStatus, status) if status in STATUSES else None
    page = _size(asked), asked.fields.get("before") or None, known
    text = asked.fields.get("q", "").strip()
    return store.runs(*page, text)


def _size(asked: WebRequest) -> int:
    return min(max(asked.number("limit", _SIZE), 1), _MAX)


def glance(site: Site, store: Reader, row: RunRow) -> Document:
    """Sum one run up."""
    layout = site.project.layout
    order = show_view.asked_order(layout, row.run_id)
    held, total = show_view.counts(show_view.criteria(layout, store, row))
    return {
        "row": row,
        "agents": _agents(order),
        "max_iterations": budgets(order).get("max_iterations"),
        "held": held,
        "total": total,
        "spent": spent(store, row.run_id),
    }


def spent(store: Reader, run_id: str) -> str:
    """Say in a few words what a run has used."""
    kept = store.kv_value(run_id, "spent")
    minutes = kept.get("minutes") if isinstance(kept, dict) else None
    said = [f"{minutes:.1f} min"] if isinstance(minutes, float) and minutes >= 0.05 else []
    used = show_view.total_usage(store.usage(run_id))
    tokens = used["input_tokens"] + used["output_tokens"]
    said += [f"{tokens:,} tok"] if tokens else []
    said += [f"${used['cost_usd']:.2f}"] if used["cost_usd"] else []
    return " · ".join(said)


def _agents(order: dict[str, object]) -> tuple[str, ...]:
    found = order.get("agents")
    named = found.values() if isinstance(found, dict) else ()
    names = [str(item.get("name")) for item in named if isinstance(item, dict)]
    return tuple(dict.fromkeys(names))


def budgets(order: dict[str, object]) -> dict[str, object]:
    """Return the budgets that a run was given."""
    found = order.get("budgets")
    return found if isinstance(found, dict) else {}


_DAYS = 30
_UNITS = {"cost_usd": "USD", "tokens": "tokens", "minutes": "minutes"}


def cost_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle runs cost --json` gives."""
    days = min(max(asked.number("days", _DAYS), 1), show_view.MAX_DAYS)
    with site.store() as store:
        return show_view.cost_document(store, days, site.now())


def cost_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Draw one of the numbers: what was asked for, else money if any was told."""
    by_day = cast(list[dict[str, object]], found["by_day"])
    points = [(date.fromisoformat(str(row["day"])), _numbers(row)) for row in by_day]
    default = "cost_usd" if any(numbers["cost_usd"] for _, numbers in points) else "minutes"
    what = asked.fields.get("plot", default)
    what = what if what in _UNITS else default
    last = site.now().date()
    first = last - timedelta(days=int(str(found["days"])) - 1)
    values = [(day, numbers[what]) for day, numbers in points]
    drawn = render.draw_days(values, first, last, _UNITS[what])
    return {"plot": drawn, "plotted": what}


def _numbers(row: dict[str, object]) -> dict[str, float]:
    found = {name: float(str(row[name])) for name in ("cost_usd", "minutes")}
    tokens = float(str(row["input_tokens"])) + float(str(row["output_tokens"]))
    return found | {"tokens": tokens}


_MOST = 20_000  # entries of a workspace that are counted


def health_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle doctor --json` does."""
    return health.health_document(health.examine(site.project.layout.root, site.project.env))


def health_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what takes space, and who holds the lock."""
    layout = site.project.layout
    with site.store() as store:
        kept = [_kept(store, path) for path in _workspaces(site)]
        running = store.running()
    files = [layout.database, *layout.home.glob(f"{layout.database.name}-*")]
    return {
        "kept": kept,
        "total": sum(int(str(item["size"])) for item in kept),
        "running": running,
        "holder": lock.holder(layout.run_lock),
        "store": address.find(layout).name,
        "store_size": sum(map(_length, files)),
    }


def _workspaces(site: Site) -> list[Path]:
    try:
        root = workspaces(site.project)
    except TreadleError:
        return []
    return [root / name for name in sorted(walk.names(root), reverse=True) if is_run_id(name)]


def _kept(store: Reader, path: Path) -> dict[str, object]:
    row = store.run(path.name)
    size, is_more = _folder_size(path)
    status = row.status if row else None
    return {"run_id": path.name, "status": status, "size": size, "is_more": is_more}


def _folder_size(folder: Path) -> tuple[int, bool]:
    """Add up what lies below a folder, as far as one cares to wait."""
    files = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    sizes = [_length(path) for path in islice(files, _MOST + 1)]
    return sum(sizes[:_MOST]), len(sizes) > _MOST


def _length(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
