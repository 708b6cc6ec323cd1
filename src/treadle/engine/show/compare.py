"""Compare several runs of one task or goal, the best first."""

from collections.abc import Sequence
from typing import Any

from treadle.engine.run import memory
from treadle.engine.show import view
from treadle.errors import BlockedError
from treadle.ids import short_run
from treadle.layout import Layout
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks import tries
from treadle.tasks.tries import Contender

Document = dict[str, object]
_HEADS = ("", "agent", "run", "status", "criteria", "protected", "iterations", "cost", "lines")


def find_tried(store: Reader, text: str) -> RunRow:
    """Return a run of the newest set of a task, or of the set of the run that is named."""
    row = view.find_run(store, text)
    runs = store.task_runs(text) if row.run_id != text and store.task(text) else [row]
    found = [it for it in runs if tries.trial_of(store, it.run_id)]
    if not found:
        raise BlockedError(
            f"{text} has nothing to compare: only one agent has worked on it; --try names several",
            code="not_tried",
            fix=["treadle run --help"],
        )
    return found[-1]


def landing_run(store: Reader, text: str) -> RunRow:
    """Return the run that a word means when it is to land: of a task, the one that won."""
    row = view.find_run(store, text)
    is_task = row.task_id == text and tries.trial_of(store, row.run_id)
    return (tries.chosen(store, row) or row) if is_task else row


def document(layout: Layout, store: Reader, row: RunRow) -> Document:
    """Return the runs of a set, the best first, and which of them lands."""
    best = tries.chosen(store, row)
    return {
        "task_id": row.task_id,
        "goal": row.goal,
        "base_commit": row.base_commit,
        "winner": best and best.run_id,
        "tries": [
            _document(layout, store, number, it)
            for number, it in enumerate(tries.ranked(store, row), 1)
        ],
    }


def _document(layout: Layout, store: Reader, number: int, it: Contender) -> Document:
    known = memory.recall(store, it.row.run_id)
    held, total = view.counts(view.criteria(layout, store, it.row))
    return {
        "rank": number,
        "run_id": it.row.run_id,
        "agent": it.trial.agent,
        "status": it.row.status,
        "reason": known.reason,
        "reason_code": known.reason_code,
        "criteria_held": held,
        "criteria": total,
        "protected": list(it.protected),
        "iterations": it.row.iteration,
        "cost_usd": it.cost_usd,
        "tokens": it.tokens,
        "lines": it.trial.lines,
        "landed": known.landed_commit,
        "next": list(memory.next_commands(it.row, known)),
    }


def next_commands(found: Document) -> list[str]:
    """Return what is to be done with the best of them, which has been compared."""
    best = [it for it in _tries(found) if it["run_id"] == found["winner"]]
    return [it for row in best for it in row["next"] if not it.startswith("treadle compare")]


def _tries(found: Document) -> Sequence[Any]:
    rows = found["tries"]
    return rows if isinstance(rows, Sequence) else ()


def table(found: Document) -> list[tuple[str, ...]]:
    """Return the lines of a table, its heads first; the winner's has a star."""
    return [_HEADS, *(_cells(it, it["run_id"] == found["winner"]) for it in _tries(found))]


def _cells(it: Document, is_best: bool) -> tuple[str, ...]:
    cost, lines, protected = it["cost_usd"], it["lines"], it["protected"]
    return (
        "*" if is_best else str(it["rank"]),
        str(it["agent"]),
        short_run(str(it["run_id"])),
        "landed" if it["landed"] else str(it["status"]),
        f"{it['criteria_held']}/{it['criteria']}",
        "changed" if protected else "untouched",
        str(it["iterations"]),
        "unknown" if cost is None else f"${cost:.2f}",
        "unknown" if lines is None else str(lines),
    )
