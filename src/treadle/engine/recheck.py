"""Run the criteria's commands again on a tree that nobody has checked yet."""

from treadle.contract.request import Observed
from treadle.engine import checks, place
from treadle.engine.run import Run
from treadle.errors import BlockedError, ExitCode, InterruptedRun
from treadle.files import remove
from treadle.git import workspace
from treadle.store.run_changes import STOP_REQUESTED


def require(run: Run, commit: str) -> None:
    """Check a merged commit in the run's workspace, which is put back afterwards."""
    if not run.order.commands:
        return
    if STOP_REQUESTED in run.kv:
        run.record(run.cursor(), {STOP_REQUESTED: None})
    _open(run)
    workspace.restore(run.workspace, commit)
    try:
        failed = [seen for seen in _observe(run) if not seen.passed]
    finally:
        workspace.restore(run.workspace, run.head)
    if failed:
        names = ", ".join(f"{seen.id} ({seen.command})" for seen in failed)
        where = run.tools.layout.relative(run.folder.landing)
        raise BlockedError(
            f"merged with what came meanwhile, the work no longer passes: {names}",
            code="checks_failed",
            fix=[*(f"cat {where}/{seen.id}.txt" for seen in failed), _again(run)],
        )


def _open(run: Run) -> None:
    failed = place.reopen(run)
    if failed and failed.reason == "stopped":
        raise _interrupted(failed.detail)
    if failed:
        raise BlockedError(place.setup_failure(run, failed), code="checks_failed")


def _observe(run: Run) -> list[Observed]:
    remove.remove_tree(run.folder.landing)
    run.folder.landing.mkdir()
    found = []
    for criterion in run.order.commands:
        seen, stopped = checks.execute(run, criterion, run.folder.landing / f"{criterion.id}.txt")
        if stopped:
            raise _interrupted(stopped)
        checks.note_observed(run, seen, " on the merged tree")
        found.append(seen)
    return found


def _interrupted(reason: str) -> InterruptedRun:
    code = ExitCode.INTERRUPTED if "SIGINT" in reason else ExitCode.TERMINATED
    return InterruptedRun(f"not landed: {reason}", exit_code=code)


def _again(run: Run) -> str:
    return f"treadle run {run.row.task_id}" if run.row.task_id else "treadle run --goal …"
