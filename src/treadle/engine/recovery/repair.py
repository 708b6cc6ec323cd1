"""Mend what recovery alone leaves standing: rows and folders that disagree."""

from treadle.contract.event import EventType
from treadle.engine.run import resume, run_files
from treadle.engine.run.run import Tools
from treadle.engine.show import find_run
from treadle.errors import FormatError
from treadle.store.runs import History, RunRow, StepRow


def repair(tools: Tools) -> list[str]:
    """Mend every run whose rows and folders disagree; return their ids."""
    rows = [row for row in find_run.every_run(tools.store) if resume.mismatches(tools, row)]
    for row in rows:
        _mend(tools, row)
    return [row.run_id for row in rows]


def _mend(tools: Tools, row: RunRow) -> None:
    """Believe an intact folder; where it is damaged the row stands, without a digest."""
    store = tools.store
    history = History(
        steps=[_mended(tools, step) for step in store.steps(row.run_id)],
        events=store.events(row.run_id),
        kv=store.kv(row.run_id),
        usage=store.usage(row.run_id),
        checks=store.checks(row.run_id),
    )
    store.restore(row, history)
    try:
        run = resume.take_over(tools, row)
    except FormatError as error:
        tools.note(row.run_id, f"only its rows are left: {error.message}")
        return
    run.timeline.add(EventType.ROW_MISMATCH, "mended by doctor --repair")
    run.record(run.cursor())
    store.release(run.id, run.row.claim_epoch)


def _mended(tools: Tools, step: StepRow) -> StepRow:
    try:
        found, digest = run_files.read_step(tools.layout.root / step.step_dir)
    except FormatError:
        return step._replace(digest=None)
    return found.row._replace(digest=digest)
