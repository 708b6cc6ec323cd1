"""What each check of a run claimed, what was observed, and what that makes of its step.

Whoever shows a verdict asks here: what was observed counts, and a claim that it contradicts is
refuted, whatever word the step itself ended with.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.contract.events import StepError
from treadle.layout import VERDICT_JSON, Layout
from treadle.store.runs import CheckRow, StepRow

Outcome = Literal["holds", "fails", "refuted", "unknown"]
StepOutcome = Literal["ok", "fail", "skipped", "stopped", "holds", "fails", "refuted"]
_Document = dict[str, object]


def outcome_of(claimed: bool | None, observed: bool | None) -> Outcome:
    """Return how a criterion stands: by what was observed, else by what was claimed."""
    if observed is None:
        return "unknown" if claimed is None else "holds" if claimed else "fails"
    return "holds" if observed else "refuted" if claimed else "fails"


class SeenCriterion(NamedTuple):
    """One criterion in one check; `log` is what its command printed, below the run's steps."""

    id: str
    claimed: bool | None
    observed: bool | None
    log: str | None = None

    @property
    def outcome(self) -> Outcome:
        """Return how it stood in this check."""
        return outcome_of(self.claimed, self.observed)


class StepVerdict(NamedTuple):
    """What a step came to; only a check has a word and criteria."""

    step: StepRow
    word: str | None = None  # PASS or FAIL, as the agent claimed
    criteria: tuple[SeenCriterion, ...] = ()

    @property
    def outcome(self) -> StepOutcome:
        """Return how the step is shown; one that somebody interrupted has not failed."""
        if self.step.error_code == StepError.INTERRUPTED:
            return "stopped"
        found = {it.outcome for it in self.criteria}
        if self.step.status != "ok" or not found:
            return "refuted" if "refuted" in found else self.step.status
        ranked: tuple[StepOutcome, ...] = ("refuted", "fails", "holds")
        return next((it for it in ranked if it in found), self.step.status)

    @property
    def refuted(self) -> list[str]:
        """Return the criteria that were claimed to hold while their commands failed."""
        return [it.id for it in self.criteria if it.outcome == "refuted"]

    @property
    def words(self) -> str:
        """Say how the step ended, and what was wrong with that."""
        error, wrong = self.step.error_code, ", ".join(self.refuted)
        words = f"{self.step.status} ({error})" if error else self.step.status
        return f"{words} (refuted: {wrong})" if wrong else words

    @property
    def sentence(self) -> str | None:
        """Say what was claimed and what was observed; nothing where nothing was checked."""
        if not self.criteria:
            return None
        seen = [it.id for it in self.criteria if it.observed is False]
        if self.refuted:
            return f"Claimed {self.word or 'otherwise'}, observed FAIL: {' '.join(seen)}"
        failing = seen or [it.id for it in self.criteria if it.outcome == "fails"]
        word = "Observed" if seen else "Claimed"
        return f"{word} FAIL: {' '.join(failing)}" if failing else None


def step_verdict(layout: Layout, step: StepRow, checks: Iterable[CheckRow]) -> StepVerdict:
    """Return what a step came to; `checks` are those of its run."""
    if step.role != "check":
        return StepVerdict(step)
    seen = {
        it.criterion_id: it
        for it in checks
        if (it.step_index, it.phase) == (step.step_index, "check")
    }
    told = read(layout.shared / step.step_dir / VERDICT_JSON)
    said = {id_: flag(item.get("pass")) for id_, item in by_id(told.get("criteria")).items()}
    found = (_seen(id_, said.get(id_), seen.get(id_)) for id_ in {**seen, **said})
    return StepVerdict(step, text(told.get("verdict")), tuple(found))


def _seen(id_: str, claimed: bool | None, check: CheckRow | None) -> SeenCriterion:
    return SeenCriterion(id_, claimed, check.passed if check else None, check and check.log)


def run_verdicts(
    layout: Layout, steps: Sequence[StepRow], checks: Sequence[CheckRow]
) -> list[StepVerdict]:
    """Return what each step of a run came to, in order."""
    by_step: dict[int, list[CheckRow]] = {}
    for check in checks:
        by_step.setdefault(check.step_index, []).append(check)
    return [step_verdict(layout, it, by_step.get(it.step_index, ())) for it in steps]


def last_check(found: Sequence[StepVerdict]) -> StepVerdict | None:
    """Return the last of these that checked anything: it decides how a run stands."""
    return next((it for it in reversed(found) if it.criteria), None)


def by_id(items: object) -> dict[str, _Document]:
    """Return what a list has by the ids of its items."""
    found = items if isinstance(items, list) else []
    return {str(item.get("id")): item for item in found if isinstance(item, dict)}


def read(path: Path) -> _Document:
    """Read an object for showing; one that is missing or damaged shows nothing."""
    found = load(path)
    return found if isinstance(found, dict) else {}


def load(path: Path) -> object:
    """Read a file for showing; one that is missing or damaged shows nothing."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def text(value: object) -> str | None:
    """Return a text that says something."""
    return value if isinstance(value, str) and value else None


def flag(value: object) -> bool | None:
    """Return a yes or a no."""
    return value if isinstance(value, bool) else None
