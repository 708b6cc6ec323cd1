"""Compare the store's rows with the step folders they speak of."""

from treadle.contract.event import EventType
from treadle.engine import load, manifest
from treadle.engine.run import Tools
from treadle.errors import BlockedError, FormatError
from treadle.store.runs import RunRow, StepRow


def mismatches(tools: Tools, row: RunRow) -> dict[str, str]:
    """Say of each step whose folder is missing, damaged or not the one committed what is wrong."""
    problems = {step.step_dir: _problem(tools, step) for step in tools.store.steps(row.run_id)}
    return {folder: text for folder, text in problems.items() if text}


def require(tools: Tools, row: RunRow) -> None:
    """Refuse to build on a run whose rows and folders disagree."""
    found = mismatches(tools, row)
    if not found:
        return
    run = load.take_over(tools, row)
    for folder, text in found.items():
        run.timeline.add(EventType.ROW_MISMATCH, f"{folder}: {text}")
    run.record(run.cursor())
    raise BlockedError(
        f"the store and the files of run {row.run_id} disagree about {', '.join(found)}",
        code="row_mismatch",
        fix=["treadle doctor --repair"],
    )


def _problem(tools: Tools, step: StepRow) -> str | None:
    if step.digest is None:
        return None
    try:
        manifest.of_row(tools.layout.root / step.step_dir, step)
    except FormatError as error:
        return error.message
    return None
