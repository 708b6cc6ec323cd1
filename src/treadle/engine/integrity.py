"""Compare the store's rows with the step folders they speak of."""

import hashlib
from typing import NamedTuple

from treadle.contract.event import EventType
from treadle.engine import load, manifest
from treadle.engine.run import Tools
from treadle.errors import BlockedError, FormatError
from treadle.store.rows.run import RunRow, StepRow


class Mismatch(NamedTuple):
    """A row whose folder says something else."""

    run_id: str
    step_dir: str
    message: str


def mismatches(tools: Tools, row: RunRow) -> list[Mismatch]:
    """Return the steps of a run whose folder is missing, damaged or not the one committed."""
    found = []
    for step in tools.store.steps(row.run_id):
        problem = _problem(tools, step)
        if problem:
            found.append(Mismatch(row.run_id, step.step_dir, problem))
    return found


def require(tools: Tools, row: RunRow) -> None:
    """Refuse to build on a run whose rows and folders disagree."""
    found = mismatches(tools, row)
    if not found:
        return
    note(tools, row, found)
    names = ", ".join(item.step_dir for item in found)
    raise BlockedError(
        f"the store and the files of run {row.run_id} disagree about {names}",
        code="row_mismatch",
        fix=["treadle doctor --repair"],
    )


def note(tools: Tools, row: RunRow, found: list[Mismatch]) -> None:
    """Write the disagreement into the run's timeline."""
    run = load.take_over(tools, row)
    for item in found:
        run.timeline.add(EventType.ROW_MISMATCH, f"{item.step_dir}: {item.message}")
    run.record(run.cursor())


def _problem(tools: Tools, step: StepRow) -> str | None:
    folder = tools.layout.root / step.step_dir
    if step.digest is None:
        return None
    path = folder / manifest.NAME
    if not path.is_file():
        return "step.json is missing"
    if hashlib.sha256(path.read_bytes()).hexdigest() != step.digest:
        return "step.json is not the one that was committed"
    try:
        found, _ = manifest.read(folder)
    except FormatError as error:
        return error.message
    told = ("digest", "archive", "archive_sha256")  # known only when the folder was whole
    if found.row._replace(**{name: getattr(step, name) for name in told}) != step:
        return "the row was changed after it was committed"
    return None
