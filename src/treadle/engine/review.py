"""Gather what a finished or running run has to show, from the store and its folder."""

import json
from pathlib import Path
from typing import NamedTuple

from treadle.layout import Layout
from treadle.store.runs import CheckRow, RunRow, StepRow
from treadle.store.store import Reader


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
    asked = _asked(layout, row.run_id)
    checks = store.checks(row.run_id)
    last = _last_check(store.steps(row.run_id))
    claimed = _claimed(layout.root / last.step_dir) if last else {}
    notes = _notes(layout.root / last.step_dir) if last else {}
    views = []
    for item in asked:
        id_ = str(item.get("id"))
        observed = _newest(checks, id_, "check")
        before = _newest(checks, id_, "before")
        claim = claimed.get(id_, {})
        views.append(
            CriterionView(
                id=id_,
                text=str(item.get("text")),
                verify=_text(item.get("verify")),
                claimed=_flag(claim.get("pass")),
                observed=observed.passed if observed else None,
                before=before.passed if before else None,
                evidence=observed.log if observed else _text(claim.get("evidence")),
                note=notes.get(id_) if observed else None,
            )
        )
    return views


def counts(views: list[CriterionView]) -> tuple[int, int]:
    """Return how many criteria hold, and how many there are."""
    held = [v for v in views if (v.claimed if v.observed is None else v.observed)]
    return len(held), len(views)


def order(layout: Layout, run_id: str) -> dict[str, object]:
    """Return what a run was asked to do, for showing; nothing if its file is lost."""
    found = _read(layout.run(run_id).run_json).get("order")
    return found if isinstance(found, dict) else {}


def claims(layout: Layout, step: StepRow) -> dict[str, bool | None]:
    """Return what a check step's agent claimed of each criterion."""
    found = _claimed(layout.root / step.step_dir)
    return {id_: _flag(item.get("pass")) for id_, item in found.items()}


def _asked(layout: Layout, run_id: str) -> list[dict[str, object]]:
    found = order(layout, run_id).get("criteria")
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _claimed(step_dir: Path) -> dict[str, dict[str, object]]:
    found = _read(step_dir / "verdict.json").get("criteria")
    items = found if isinstance(found, list) else []
    return {str(item.get("id")): item for item in items if isinstance(item, dict)}


def _notes(step_dir: Path) -> dict[str, str | None]:
    found = _load(step_dir / "files" / "checks" / "observed.json")
    items = found if isinstance(found, list) else []
    return {
        str(item.get("id")): _text(item.get("note")) for item in items if isinstance(item, dict)
    }


def _last_check(steps: list[StepRow]) -> StepRow | None:
    return next((step for step in reversed(steps) if step.role == "check"), None)


def _newest(checks: list[CheckRow], id_: str, phase: str) -> CheckRow | None:
    found = [check for check in checks if check.criterion_id == id_ and check.phase == phase]
    return found[-1] if found else None


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
