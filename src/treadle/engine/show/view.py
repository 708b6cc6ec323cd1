"""What a run has to show: its criteria, its JSON, what it cost, and why it stands where it does."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.engine.run import days, memory
from treadle.engine.run.memory import RunMemory
from treadle.engine.show import verdicts
from treadle.engine.show.verdicts import Outcome, StepVerdict, by_id, flag
from treadle.errors import NotFoundError, argument
from treadle.files import walk
from treadle.ids import age, hint, is_run_id, short_run, utc
from treadle.layout import SCORECARD, STDERR, STDOUT, VERDICT_JSON, WORKSPACE_DIFF, Layout
from treadle.store.runs import CostRow, RunRow, StepRow, UsageRow
from treadle.store.store import Reader
from treadle.tasks import waiting
from treadle.tasks.lanes import FINAL
from treadle.text import plural

_PAGE = 500
_SHOWN = 5
_MAX_OUTPUT = 4 << 20  # of each file
_OBSERVED = "files/checks/observed.json"


def every_run(store: Reader) -> Iterator[RunRow]:
    """Yield all runs, the newest first."""
    page = store.runs(_PAGE)
    while page:
        yield from page
        page = store.runs(_PAGE, page[-1].run_id)


def find_run(store: Reader, text: str) -> RunRow:
    """Return the run that a person means.

    By its id, a beginning or an end of it that no other has, by `last`, or as the newest run of
    a task or of a spec.
    """
    if row := store.run(text) if is_run_id(text) else _named_run(store, text):
        return row
    found = _like(store, text) if text else []
    if len(found) == 1:
        return found[0]
    if found:
        raise _ambiguous(store, text, found)
    raise _unknown("run", text, [row.run_id for row in store.runs(50)])


def short_name(store: Reader, run_id: str) -> str:
    """Return the end of a run's id where that names it and nothing else, else the whole id."""
    short = short_run(run_id)
    try:
        return short if find_run(store, short).run_id == run_id else run_id
    except NotFoundError:
        return run_id


def _like(store: Reader, text: str) -> list[RunRow]:
    """Return the newest runs whose id begins or ends like this, one more than are ever named."""
    ends = sorted((it for it in store.run_ids() if it.endswith(text)), reverse=True)
    rows = [*store.find_runs(text, _SHOWN + 1), *filter(None, map(store.run, ends[: _SHOWN + 1]))]
    return sorted(set(rows), reverse=True)


def _named_run(store: Reader, text: str) -> RunRow | None:
    """Return the newest run of all, of a task or of a spec; one of these may have none yet."""
    if text == "last":
        return next(iter(store.runs(1)), None)
    if store.task(text):
        return _newest(store.task_runs(text), f"task {text}", f"treadle run {argument(text)}")
    for spec in (text.removeprefix("specs/"), f"{text}.md", f"{text}.spec.md"):
        if message := store.spec_message(spec):
            runs = store.message_runs(message.message_id, "")
            landed = f"git log --grep={argument(f'Treadle-Spec: {spec}')}", "any more"
            told = landed if message.run_ids else ("treadle process", "yet")
            return _newest(runs, f"spec {spec}", *told)
    return None


def _newest(runs: Sequence[RunRow], of: str, command: str, since: str = "yet") -> RunRow:
    if not runs:
        raise NotFoundError(f"{of} has no run {since}", fix=[command])
    return runs[-1]


def _ambiguous(store: Reader, text: str, found: Sequence[RunRow]) -> NotFoundError:
    """Name the newest of the runs that a few characters could mean."""
    now = store.now()
    named = [f"{row.run_id}  {age(row.created_at, now)}  {row.goal}" for row in found[:_SHOWN]]
    more = ["and more"] if len(found) > _SHOWN else []
    return NotFoundError(
        "\n".join([f"more than one run begins or ends with {text}:", *named, *more]),
        code="run_ambiguous",
        fix=["treadle runs list"],
        details={"candidates": [row.run_id for row in found[:_SHOWN]]},
    )


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

    @property
    def is_refuted(self) -> bool:
        """Tell whether it was claimed to hold and seen to fail."""
        return self.outcome == "refuted"

    @property
    def outcome(self) -> Outcome:
        """Return how it stands after the last check."""
        return verdicts.outcome_of(self.claimed, self.observed)

    @property
    def words(self) -> str:
        """Return the text, and whether what was seen says anything about the work."""
        is_idle = self.before and self.observed is not False
        doubt = " (proves nothing yet: it passed before any work)" if is_idle else ""
        return f"{self.text}{doubt}"


def criteria(layout: Layout, store: Reader, row: RunRow) -> list[CriterionView]:
    """Return every criterion of a run with what is known about it."""
    checks = store.checks(row.run_id)
    last = next((it for it in reversed(store.steps(row.run_id)) if it.role == "check"), None)
    held_before = row.status == "passed" and last is None  # so nobody was asked
    before, observed = (
        {check.criterion_id: check for check in checks if check.phase == phase}
        for phase in ("before", "before" if held_before else "check")
    )
    folder = layout.shared / last.step_dir if last else None
    claimed = by_id(verdicts.read(folder / VERDICT_JSON).get("criteria")) if folder else {}
    notes = by_id(verdicts.load(folder / _OBSERVED)) if folder else {}
    views = []
    asked = asked_order(layout, row.run_id) or _queued_order(store, row.run_id)
    for id_, item in by_id(asked.get("criteria")).items():
        first, seen, claim = before.get(id_), observed.get(id_), claimed.get(id_, {})
        views.append(
            CriterionView(
                id=id_,
                text=str(item.get("text")),
                verify=verdicts.text(item.get("verify")),
                claimed=flag(claim.get("pass")),
                observed=seen.passed if seen else None,
                before=first.passed if first else None,
                evidence=seen.log if seen else verdicts.text(claim.get("evidence")),
                note=verdicts.text(notes.get(id_, {}).get("note")) if seen else None,
            )
        )
    return views


def counts(views: list[CriterionView]) -> tuple[int, int]:
    """Return how many criteria hold, and how many there are."""
    held = [v for v in views if (v.claimed if v.observed is None else v.observed)]
    return len(held), len(views)


def asked_order(layout: Layout, run_id: str) -> dict[str, object]:
    """Return what a run was asked to do, for showing; nothing if its file is lost."""
    found = verdicts.read(layout.run(run_id).run_json).get("order")
    return found if isinstance(found, dict) else {}


def _queued_order(store: Reader, run_id: str) -> dict[str, object]:
    """Return what the store keeps of the order of a run that no worker has begun with."""
    found = memory.recall(store, run_id).others.get("order")
    return found if isinstance(found, dict) else {}


def step_output(
    layout: Layout, store: Reader, row: RunRow, asked: str
) -> tuple[StepRow, dict[str, str]]:
    """Return a step, by its number or the `last` one, and what its programs printed, by file."""
    steps = store.steps(row.run_id)
    step = next((it for it in reversed(steps) if asked in ("last", str(it.step_index))), None)
    if step is None:
        known = f"it has {plural(len(steps), 'step')}" if steps else "it has none yet"
        text = f"run {row.run_id} has no step {asked}; {known}"
        raise NotFoundError(text, fix=[f"treadle runs show {row.run_id}"])
    seen = (it.log for it in store.checks(row.run_id) if it.step_index == step.step_index)
    below = layout.relative(layout.run(row.run_id).steps)
    logs = [f"{step.step_dir}/logs/{name}" for name in (STDOUT, STDERR)]
    names = [*logs, *(f"{below}/{log}" for log in seen if log)]
    texts = {name: walk.tail(layout.shared / name, _MAX_OUTPUT) for name in names}
    return step, {name: text for name, text in texts.items() if text}


Document = dict[str, object]


def runs_document(store: Reader, rows: list[RunRow]) -> Document:
    """Return a page of runs, and which of them would conflict."""
    storms = memory.clashes(store, rows)
    return {
        "runs": [row._asdict() | _outcome(memory.recall(store, row.run_id)) for row in rows],
        "weather": [storm._asdict() for storm in storms],
    }


def _outcome(known: RunMemory) -> Document:
    cost = known.spent.cost_usd if known.spent else 0.0
    refuted_in = list(known.refuted)
    return {"cost_usd": round(cost, 6), "landed": known.landed_commit, "refuted": refuted_in}


def run_document(layout: Layout, store: Reader, row: RunRow) -> Document:
    """Return one run with its steps, criteria and usage."""
    known, found = memory.recall(store, row.run_id), store.steps(row.run_id)
    steps = verdicts.run_verdicts(layout, found, store.checks(row.run_id))
    return row._asdict() | {
        "landed": known.landed and known.landed.commit,
        "undone": known.undone and known.undone.commit,
        "reason": known.reason,
        "reason_code": known.reason_code,
        "resume_at": known.resume_at,
        "protected": list(known.protected.files) if known.protected else [],
        "headline": (last := verdicts.last_check(steps)) and last.sentence,
        "steps": [told_step(step) for step in steps],
        "criteria": [
            view._asdict() | {"outcome": view.outcome} for view in criteria(layout, store, row)
        ],
        "usage": total_usage(store.usage(row.run_id))
        | {"spent": known.spent and known.spent._asdict()},
    }


def step_document(layout: Layout, store: Reader, step: StepRow) -> Document:
    """Return one step with what it claimed and was refuted in."""
    return told_step(verdicts.step_verdict(layout, step, store.checks(step.run_id)))


def told_step(found: StepVerdict) -> Document:
    """Return one step with what it came to."""
    told: Document = {"outcome": found.outcome, "headline": found.sentence}
    return found.step._asdict() | {"refuted": found.refuted} | told


def events_document(store: Reader, run_id: str, after: int, limit: int | None = None) -> Document:
    """Return a run's timeline after an event."""
    return {"events": [event._asdict() for event in store.events(run_id, after, limit)]}


# The events a reader would ask about; the rest of the timeline is in `treadle log`.
_TELLING = """
    base_dirty check_before claim_refuted step_failed attempt_failed answer_repaired routine_chosen
    patch_applied no_patch risky_change no_progress budget_exceeded branch_moved reconciled_step
    run_interrupted run_resumed row_mismatch store_rebuilt stop_requested landed land_refused undone
    rebased run_queued run_claimed push_refused gave_up order_held order_refused archive_refused
    superseded protected_changed protected_approved check_broken check_flaky
    change_approved plan_approved rejected submodule_not_harvested history_shortened
    agent_replaced file_not_left
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
    known = days.recall(store, row.run_id)
    steps = store.steps(row.run_id)
    views = criteria(layout, store, row)
    held, total = counts(views)
    where = f"iteration {row.iteration}, {plural(len(steps), 'step')}, {held}/{total} criteria"
    telling = _TELLING.split()
    told = [event for event in store.events(row.run_id) if event.type in telling]
    return Explanation(
        headline=f"run {row.run_id} {_WORDS[memory.word(row, known)]} ({where})",
        reason=known.reason,
        reason_code=known.reason_code,
        failing=tuple(v for v in views if v.claimed is False or v.observed is False),
        events=tuple(f"{event.type}: {event.message}" for event in told),
        look=_look(layout, steps),
        next=ways_on(store, row, known),
        weather=_weather(store, row),
        usage=usage_words(store.usage(row.run_id)),
        protected=known.protected_words,
    )


def ways_on(store: Reader, row: RunRow, known: RunMemory) -> tuple[str, ...]:
    """Return what a user would do now; a task that is over lets none of its runs go on."""
    task = store.task(row.task_id) if row.task_id else None
    if task and row.status in ("stopped", "failed") and not known.trial:
        if task.lane in FINAL:
            return (f"treadle run --again {row.run_id}",)
        if task.lane == "approved" and (passed := waiting.passed_run(store, task)):
            return memory.next_commands(passed, memory.recall(store, passed.run_id))
    return memory.next_commands(row, known)


def _weather(store: Reader, row: RunRow) -> tuple[str, ...]:
    """Return what the newest runs say about landing this one; the later of two has noted it."""
    found = memory.clashes(store, {item.run_id: item for item in (*store.runs(50), row)}.values())
    return tuple(storm.sentence for storm in found if row.run_id in storm.runs)


_WORDS = {
    "queued": "waits for a worker",
    "running": "is running",
    "passed": "passed",
    "failed": "failed",
    "stopped": "was stopped",
}


def _look(layout: Layout, steps: list[StepRow]) -> tuple[str, ...]:
    """Return the files worth opening: a failure's words and work, the last check's scorecard."""
    failed = [step for step in steps if step.status == "fail"]
    found = [f"{step.step_dir}/files/{WORKSPACE_DIFF}" for step in failed[-1:]]
    if steps and steps[-1].status == "fail":
        found += [f"{steps[-1].step_dir}/logs/{STDERR}", f"{steps[-1].step_dir}/logs/{STDOUT}"]
    checks = [step for step in steps if step.role == "check"]
    if checks:
        found.append(f"{checks[-1].step_dir}/{SCORECARD}")
    paths = [layout.shared / name for name in found]
    return tuple(layout.shown(path) for path in paths if path.is_file())
