"""What a run has to show: its criteria, its JSON, what it cost, and why it stands where it does."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from treadle.engine.run import memory
from treadle.errors import NotFoundError
from treadle.ids import hint, is_run_id, utc
from treadle.layout import SCORECARD, STDERR, STDOUT, VERDICT_JSON, Layout
from treadle.store.runs import CostRow, RunRow, StepRow, UsageRow
from treadle.store.store import Reader
from treadle.text import plural

_PAGE = 500
_OBSERVED = "files/checks/observed.json"


def every_run(store: Reader) -> Iterator[RunRow]:
    """Yield all runs, the newest first."""
    page = store.runs(_PAGE)
    while page:
        yield from page
        page = store.runs(_PAGE, page[-1].run_id)


def find_run(store: Reader, text: str) -> RunRow:
    """Return the run with this id, or with the only id that begins like this."""
    if is_run_id(text) and (row := store.run(text)):
        return row
    found = store.find_runs(text, 2) if text else []
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFoundError(f"more than one run begins with {text}", fix=["treadle runs list"])
    raise _unknown("run", text, [row.run_id for row in store.runs(50)])


def require_chain(store: Reader, text: str) -> None:
    """Stop if there is no such chain of messages."""
    if not store.has_chain(text):
        raise _unknown("chain", text, [chain for chain, _ in store.chains(50)])


def _unknown(what: str, text: str, known: list[str]) -> NotFoundError:
    message = f"no {what} is called {text!r}{hint(text, known)}"
    return NotFoundError(message, fix=["treadle runs list"])


MAX_DAYS = 3650


def cost_document(store: Reader, days: int, now: datetime) -> dict[str, object]:
    """Return the sums of the last days, today with them."""
    first = utc(now - timedelta(days=days - 1))[:10]
    rows = store.costs(first)
    return {
        "days": days,
        "total": _sum(rows),
        "by_agent": _grouped("agent", rows),
        "by_model": _grouped("model", rows),
        "by_day": _grouped("day", rows),
    }


def _grouped(name: str, rows: Iterable[CostRow]) -> list[dict[str, object]]:
    found: dict[str, list[CostRow]] = defaultdict(list)
    for row in rows:
        found[getattr(row, name)].append(row)
    return [{name: key or None} | _sum(found[key]) for key in sorted(found)]


def _sum(rows: Sequence[CostRow]) -> dict[str, object]:
    used = total_usage(rows)
    return {
        "steps": sum(row.steps for row in rows),
        **used,
        "cost_usd": round(used["cost_usd"], 6),
        "minutes": round(sum(row.seconds for row in rows) / 60, 3),
    }


def total_usage(rows: Sequence[UsageRow | CostRow]) -> dict[str, float]:
    """Return the sums over all steps."""
    names = ("input_tokens", "cached_tokens", "output_tokens")
    tokens = {name: sum(getattr(row, name) or 0 for row in rows) for name in names}
    return {**tokens, "cost_usd": sum(row.cost_usd or 0.0 for row in rows)}


def usage_words(rows: Sequence[UsageRow]) -> str | None:
    """Say it in words, or nothing if no tool has told."""
    if not rows:
        return None
    found = total_usage(rows)
    text = f"{found['input_tokens']} tokens in, {found['output_tokens']} out"
    return f"{text}, ${found['cost_usd']:.2f}" if found["cost_usd"] else text


class CriterionView(NamedTuple):
    """One criterion as it was asked, claimed and observed in the last check."""

    id: str
    text: str
    verify: str | None
    claimed: bool | None
    observed: bool | None
    before: bool | None
    evidence: str | None
    note: str | None = None  # why its command ended as it did, as far as treadle can tell


def criteria(layout: Layout, store: Reader, row: RunRow) -> list[CriterionView]:
    """Return every criterion of a run with what is known about it."""
    checks = store.checks(row.run_id)
    before, observed = (
        {check.criterion_id: check for check in checks if check.phase == phase}
        for phase in ("before", "check")
    )
    last = next((it for it in reversed(store.steps(row.run_id)) if it.role == "check"), None)
    claimed = _claimed(layout, last) if last else {}
    notes = _by_id(_load(layout.root / last.step_dir / _OBSERVED)) if last else {}
    views = []
    for id_, item in _by_id(asked_order(layout, row.run_id).get("criteria")).items():
        first, seen, claim = before.get(id_), observed.get(id_), claimed.get(id_, {})
        views.append(
            CriterionView(
                id=id_,
                text=str(item.get("text")),
                verify=_text(item.get("verify")),
                claimed=_flag(claim.get("pass")),
                observed=seen.passed if seen else None,
                before=first.passed if first else None,
                evidence=seen.log if seen else _text(claim.get("evidence")),
                note=_text(notes.get(id_, {}).get("note")) if seen else None,
            )
        )
    return views


def counts(views: list[CriterionView]) -> tuple[int, int]:
    """Return how many criteria hold, and how many there are."""
    held = [v for v in views if (v.claimed if v.observed is None else v.observed)]
    return len(held), len(views)


def asked_order(layout: Layout, run_id: str) -> dict[str, object]:
    """Return what a run was asked to do, for showing; nothing if its file is lost."""
    found = _read(layout.run(run_id).run_json).get("order")
    return found if isinstance(found, dict) else {}


def claims(layout: Layout, step: StepRow) -> dict[str, bool | None]:
    """Return what a check step's agent claimed of each criterion."""
    return {id_: _flag(item.get("pass")) for id_, item in _claimed(layout, step).items()}


def _claimed(layout: Layout, step: StepRow) -> dict[str, dict[str, object]]:
    return _by_id(_read(layout.root / step.step_dir / VERDICT_JSON).get("criteria"))


def _by_id(items: object) -> dict[str, dict[str, object]]:
    found = items if isinstance(items, list) else []
    return {str(item.get("id")): item for item in found if isinstance(item, dict)}


def _read(path: Path) -> dict[str, object]:
    found = _load(path)
    return found if isinstance(found, dict) else {}


def _load(path: Path) -> object:
    """Read a file for showing; one that is missing or damaged shows nothing."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


Document = dict[str, object]


def runs_document(store: Reader, rows: list[RunRow]) -> Document:
    """Return a page of runs, and which of them would conflict."""
    storms = memory.clashes(store, rows)
    return {
        "runs": [row._asdict() for row in rows],
        "weather": [storm._asdict() for storm in storms],
    }


def run_document(layout: Layout, store: Reader, row: RunRow) -> Document:
    """Return one run with its steps, criteria and usage."""
    known = memory.recall(store, row.run_id)
    return row._asdict() | {
        "landed": known.landed and known.landed.commit,
        "undone": known.undone and known.undone.commit,
        "reason": known.reason,
        "reason_code": known.reason_code,
        "resume_at": known.resume_at,
        "protected": list(known.protected.files) if known.protected else [],
        "steps": [step._asdict() for step in store.steps(row.run_id)],
        "criteria": [view._asdict() for view in criteria(layout, store, row)],
        "usage": total_usage(store.usage(row.run_id))
        | {"spent": known.spent and known.spent._asdict()},
    }


def events_document(store: Reader, run_id: str, after: int, limit: int | None = None) -> Document:
    """Return a run's timeline after an event."""
    return {"events": [event._asdict() for event in store.events(run_id, after, limit)]}


# The events a reader would ask about; the rest of the timeline is in `treadle log`.
_TELLING = """
    base_dirty check_before claim_refuted step_failed attempt_failed answer_repaired routine_chosen
    patch_applied no_patch risky_change no_progress budget_exceeded branch_moved reconciled_step
    run_interrupted run_resumed row_mismatch store_rebuilt stop_requested landed land_refused undone
    run_queued run_claimed push_refused gave_up order_held order_refused archive_refused
    protected_changed protected_approved
"""


class Explanation(NamedTuple):
    """The answer to `why`."""

    headline: str
    reason: str | None
    reason_code: str | None
    failing: tuple[CriterionView, ...]
    events: tuple[str, ...]
    look: tuple[str, ...]
    next: tuple[str, ...]
    weather: tuple[str, ...] = ()
    usage: str | None = None
    protected: str | None = None


def explain(layout: Layout, store: Reader, row: RunRow) -> Explanation:
    """Explain one run."""
    known = memory.recall(store, row.run_id)
    steps = store.steps(row.run_id)
    views = criteria(layout, store, row)
    held, total = counts(views)
    where = f"iteration {row.iteration}, {plural(len(steps), 'step')}, {held}/{total} criteria"
    telling = _TELLING.split()
    told = [event for event in store.events(row.run_id) if event.type in telling]
    return Explanation(
        headline=f"run {row.run_id} {_WORDS[row.status]} ({where})",
        reason=known.reason,
        reason_code=known.reason_code,
        failing=tuple(v for v in views if v.claimed is False or v.observed is False),
        events=tuple(f"{event.type}: {event.message}" for event in told),
        look=_look(layout, steps),
        next=memory.next_commands(row, known),
        weather=_weather(store, row),
        usage=usage_words(store.usage(row.run_id)),
        protected=known.protected_words,
    )


def _weather(store: Reader, row: RunRow) -> tuple[str, ...]:
    """Return what the newest runs say about landing this one; the later of two has noted it."""
    found = memory.clashes(store, {item.run_id: item for item in (*store.runs(50), row)}.values())
    return tuple(storm.sentence for storm in found if row.run_id in storm.runs)


_WORDS = {
    "running": "is running",
    "passed": "passed",
    "failed": "failed",
    "stopped": "was stopped",
}


def _look(layout: Layout, steps: list[StepRow]) -> tuple[str, ...]:
    """Return the files worth opening: the last step's words, the last check's scorecard."""
    found = []
    if steps and steps[-1].status == "fail":
        found += [f"{steps[-1].step_dir}/logs/{STDERR}", f"{steps[-1].step_dir}/logs/{STDOUT}"]
    checks = [step for step in steps if step.role == "check"]
    if checks:
        found.append(f"{checks[-1].step_dir}/{SCORECARD}")
    return tuple(name for name in found if (layout.root / name).is_file())
