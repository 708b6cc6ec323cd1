"""Say in plain words how a run came to stand where it stands, and what to do now."""

from collections.abc import Mapping
from typing import NamedTuple

from treadle.engine import protection, review, spending, weather, whereabouts
from treadle.engine.review import CriterionView
from treadle.layout import Layout
from treadle.store.runs import RunRow, StepRow
from treadle.store.store import Reader

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
    kv = store.kv(row.run_id)
    steps = store.steps(row.run_id)
    views = review.criteria(layout, store, row)
    held, total = review.counts(views)
    code = _text(kv.get("reason_code"))
    where = f"iteration {row.iteration}, {len(steps)} steps, {held}/{total} criteria"
    telling = _TELLING.split()
    told = [event for event in store.events(row.run_id) if event.type in telling]
    return Explanation(
        headline=f"run {row.run_id} {_WORDS[row.status]} ({where})",
        reason=_text(kv.get("reason")),
        reason_code=code,
        failing=tuple(v for v in views if v.claimed is False or v.observed is False),
        events=tuple(f"{event.type}: {event.message}" for event in told),
        look=_look(layout, steps),
        next=next_commands(row, kv),
        weather=_weather(store, row),
        usage=spending.words(store.usage(row.run_id)),
        protected=protection.words(kv),
    )


def _weather(store: Reader, row: RunRow) -> tuple[str, ...]:
    """Return what the newest runs say about landing this one; the later of two has noted it."""
    found = weather.storms(store, {item.run_id: item for item in (*store.runs(50), row)}.values())
    return tuple(storm.sentence for storm in found if row.run_id in storm.runs)


def next_commands(row: RunRow, kv: Mapping[str, object]) -> tuple[str, ...]:
    """Return what a user would do now, as literal commands."""
    run_id, code = row.run_id, kv.get("reason_code")
    if row.status == "running":
        return (f"treadle log -f {run_id}", f"treadle stop {run_id}")
    if row.status == "passed":
        return _after_pass(row, kv)
    again = f"treadle run {row.task_id}" if row.task_id else "treadle run --goal …"
    if row.status == "failed":
        return (f"treadle runs show {run_id}", again)
    if code == "queued":
        return (f"treadle log -f {run_id}", "treadle fleet status", f"treadle stop {run_id}")
    if code == "budget_exceeded":
        return (f"treadle run --resume {run_id} --budget {kv.get('budget_needed')}",)
    if code == protection.WAITS:
        go_on = f"treadle run --resume {run_id}"
        return (f"cat {protection.diff(kv)}", f"{go_on} --approve protected", go_on)
    if code == "no_progress":
        return (f"treadle run --resume {run_id} --agent act=NAME", again)
    return (f"treadle run --resume {run_id}",)


def _after_pass(row: RunRow, kv: Mapping[str, object]) -> tuple[str, ...]:
    if landed := whereabouts.now(kv):
        return (f"git show {landed[:12]}", f"treadle undo {row.run_id}")
    look = f"git diff {(row.base_commit or '')[:12]}..{row.branch}"
    return (look, f"treadle land {row.run_id}")


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
        found += [f"{steps[-1].step_dir}/logs/stderr.txt", f"{steps[-1].step_dir}/logs/stdout.txt"]
    checks = [step for step in steps if step.role == "check"]
    if checks:
        found.append(f"{checks[-1].step_dir}/scorecard.md")
    return tuple(name for name in found if (layout.root / name).is_file())


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
