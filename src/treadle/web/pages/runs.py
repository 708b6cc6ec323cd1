"""Runs and this machine: what works and worked, what it cost, what is kept, what is healthy."""

import json
from collections import defaultdict
from collections.abc import Callable
from datetime import date, timedelta
from itertools import zip_longest
from typing import Any, cast

from treadle.contract import RunStatus
from treadle.engine import health, lock
from treadle.engine.run import memory, night
from treadle.engine.show import ends, status
from treadle.engine.show import view as show_view
from treadle.engine.show.status import WorkingRun
from treadle.errors import StoreError
from treadle.layout import STDERR, STDOUT
from treadle.proc import environment, helper
from treadle.project.context import WorkspaceSize, file_size, workspace_sizes
from treadle.store import address, fleet
from treadle.store.runs import CostRow, RunRow
from treadle.store.store import Reader
from treadle.web import render
from treadle.web.pages import conflicts
from treadle.web.site import Document, Site, WebRequest

STATUSES = ("running", "passed", "failed", "stopped")
_SIZE = 50
_MAX = 500


def document(site: Site, asked: WebRequest) -> Document:
    """Return a page of runs as `treadle runs list --json` does."""
    with site.store() as store:
        return show_view.runs_document(store, _rows(store, asked))


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what works now and what waits for a worker, and to each run how far it is."""
    layout = site.project.layout
    with site.store() as store:
        rows = _rows(store, asked)
        lines = [glance(site, store, row) for row in rows]
        extra: Document = {
            "working": [_at_work(site, it) for it in status.working(layout, store)],
            "queued": fleet.queued(store),
            "waiting": [it._replace(line=site.mask.text(it.line)) for it in lock.waiters(layout)],
            "counts_by_state": store.run_counts(),
            "clashing": conflicts.in_short(memory.clashes(store, rows)),
        }
    is_paged = len(rows) == _size(asked) and not asked.fields.get("sort")
    more = rows[-1].run_id if is_paged else None
    return extra | {"lines": lines, "statuses": STATUSES, "more": more, "sorts": _SORTS}


def _at_work(site: Site, run: WorkingRun) -> Document:
    """Return a run that works now, with the last line that its agent or command wrote."""
    folder = site.project.layout.run(run.run_id).live
    lines = [line for name in (STDERR, STDOUT) for line in ends.last_lines(folder / name)[-1:]]
    return run._asdict() | {"line": site.mask.text(lines[-1]) if lines else ""}


def start(asked: WebRequest) -> list[str]:
    """Start a run for a goal, or carry out a spec."""
    if spec := asked.fields.get("spec", "").strip():
        return ["process", "--wait", "--", spec]
    words = ["run", f"--goal={asked.text('goal', 'GOAL')}"]
    commands = asked.lines("command")
    pairs = zip_longest(asked.lines("criterion"), commands, fillvalue="")
    asks = [(text or command, command) for text, command in pairs if text or command]
    if asked.is_example:
        asks = [("", "COMMAND")]
    for number, (text, command) in enumerate(asks, 1):
        words += [f"--ac={text}"] if text and (len(asks) > 1 or text != command) else []
        words += [f"--verify=AC{number}={command}"] if command else []
    for name in ("agent", "budget"):
        words += [f"--{name}={value}" for value in asked.lines(name) if value]
    return [*words, "--wait"]


_SORTS = ("newest", "oldest", "goal", "state", "iterations", "cost")


def _rows(store: Reader, asked: WebRequest) -> list[RunRow]:
    known = cast(RunStatus, found) if (found := asked.fields.get("status")) in STATUSES else None
    text, sort = asked.fields.get("q", "").strip(), asked.fields.get("sort", "")
    if sort not in _SORTS[1:]:
        return store.runs(_size(asked), asked.fields.get("before") or None, known, text)
    rows = store.runs(_MAX, None, known, text)
    keys: dict[str, Callable[[RunRow], object]] = {
        "oldest": lambda row: row.run_id,
        "goal": lambda row: row.goal.lower(),
        "state": lambda row: row.status,
        "iterations": lambda row: -row.iteration,
        "cost": lambda row: -_cost(store, row),
    }
    return sorted(rows, key=cast(Any, keys[sort]))[: _size(asked)]


def _cost(store: Reader, row: RunRow) -> float:
    spent = memory.recall(store, row.run_id).spent
    return spent.cost_usd if spent else 0.0


def _size(asked: WebRequest) -> int:
    return min(max(asked.number("limit", _SIZE), 1), _MAX)


def glance(site: Site, store: Reader, row: RunRow) -> Document:
    """Sum one run up."""
    layout = site.project.layout
    order = show_view.asked_order(layout, row.run_id)
    held, total = show_view.counts(show_view.criteria(layout, store, row))
    return {
        "row": row,
        "word": memory.word(row, memory.recall(store, row.run_id)),
        "agents": agents(order),
        "max_iterations": budgets(order).get("max_iterations"),
        "held": held,
        "total": total,
        "spent": spent(store, row.run_id),
        "landed": memory.recall(store, row.run_id).landed_commit,
    }


def spent(store: Reader, run_id: str) -> str:
    """Say in a few words what a run has used."""
    kept = memory.recall(store, run_id).spent
    said = [f"{kept.minutes:.1f} min"] if kept and kept.minutes >= 0.05 else []
    used = show_view.total_usage(store.usage(run_id))
    tokens = used["input_tokens"] + used["output_tokens"]
    said += [f"{tokens:,} tok"] if tokens else []
    said += [f"${used['cost_usd']:.2f}"] if used["cost_usd"] else []
    return " · ".join(said)


def agents(order: dict[str, object]) -> tuple[str, ...]:
    """Return the agents that a run was given, each once."""
    found = order.get("agents")
    named = found.values() if isinstance(found, dict) else ()
    names = [str(item.get("name")) for item in named if isinstance(item, dict)]
    return tuple(dict.fromkeys(names))


def budgets(order: dict[str, object]) -> dict[str, object]:
    """Return the budgets that a run was given."""
    found = order.get("budgets")
    return found if isinstance(found, dict) else {}


_DAYS = 30
_TOP = 10
_UNITS = {"cost_usd": "USD", "tokens": "tokens", "minutes": "minutes"}


def cost_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle runs cost --json` gives."""
    days = min(max(asked.number("days", _DAYS), 1), show_view.MAX_DAYS)
    with site.store() as store:
        return show_view.cost_document(store, days, site.now())


def cost_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Draw one of the numbers: what was asked for, else money if any was told."""
    last = site.now().date()
    first = last - timedelta(days=int(str(found["days"])) - 1)
    config = site.project.settings.config
    with site.store() as store:
        rows, spent = store.costs(first.isoformat()), _spent_by_run(store, first)
        limits = night.limits_document(store, config.night, site.now())
    default = "cost_usd" if any(row.cost_usd for row in rows) else "minutes"
    what = asked.fields.get("plot", default)
    what = what if what in _UNITS else default
    stacks: dict[date, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for used in rows:
        stacks[date.fromisoformat(used.day)][used.agent] += _numbers(used)[what]
    by_task: dict[str, float] = defaultdict(float)
    for row, amount in spent:
        by_task[row.task_id or ""] += amount
    tasks = sorted(by_task.items(), key=lambda it: it[1], reverse=True)
    return {
        "plot": render.draw_days(stacks, first, last, _UNITS[what]),
        "plotted": what,
        "limits": limits,
        "top_runs": [(row._asdict(), amount) for row, amount in spent[:_TOP] if amount],
        "top_tasks": [(task, it) for task, it in tasks[:_TOP] if task and it],
    }


def _spent_by_run(store: Reader, first: date) -> list[tuple[RunRow, float]]:
    """Return the newest runs since a day with what each has cost, the dearest first."""
    rows = [row for row in store.runs(_MAX) if row.created_at[:10] >= first.isoformat()]
    return sorted(((row, _cost(store, row)) for row in rows), key=lambda it: it[1], reverse=True)


def _numbers(row: CostRow) -> dict[str, float]:
    tokens = float(row.input_tokens + row.output_tokens)
    return {"cost_usd": row.cost_usd, "minutes": row.seconds / 60, "tokens": tokens}


def fleet_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle fleet status --json` prints: the fleet's tables may lie elsewhere."""

    def look() -> Document:
        words, project = ["--json", "fleet", "status"], site.project
        line = environment.treadle_command(words, project.layout.root, project.env)
        said = helper.run(*line).stdout
        return cast(Document, json.loads(said or b"{}"))

    return site.fleet.get(look, "again" in asked.fields) if site.fleet else look()


def fleet_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the runs of this project that wait for a worker."""
    with site.store() as store:
        return {"queued": fleet.queued(store)}


def health_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle doctor --json` does, seen within the last minute."""

    def look() -> Document:
        return health.health_document(health.examine(site.project.layout.root, site.project.env))

    return site.doctor.get(look, "again" in asked.fields) if site.doctor else look()


def health_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what waits on the desk, what takes space, and who holds the lock.

    A store that is away is said to be; what does not need it is shown all the same.
    """
    layout = site.project.layout
    extra: Document = {"kept": [], "running": [], "desk": 0, "away": None}
    try:
        with site.store() as store:
            extra["kept"] = [_kept(store, item) for item in workspace_sizes(site.project)]
            extra |= {"running": store.running(), "desk": len(store.desk())}
    except StoreError as error:
        extra["away"] = error.message
    kept = cast(list[Document], extra["kept"])
    files = [layout.database, *layout.home.glob(f"{layout.database.name}-*")]
    return extra | {
        "total": sum(int(str(item["size"])) for item in kept),
        "holder": lock.holder(layout.run_lock),
        "store": address.find(layout).name,
        "store_size": sum(map(file_size, files)),
    }


def _kept(store: Reader, found: WorkspaceSize) -> dict[str, object]:
    row = store.run(found.run_id)
    return {**found._asdict(), "status": row.status if row else None}
