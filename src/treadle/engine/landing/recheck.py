"""Run the criteria's commands again on a tree that nobody has checked yet."""

from treadle.contract.request import Observed
from treadle.engine.checks import observe
from treadle.engine.run import begin
from treadle.engine.run.run import Run
from treadle.errors import BlockedError, ExitCode, InterruptedRun
from treadle.files import remove
from treadle.git import workspace


def require(run: Run, commit: str) -> None:
    """Check a merged commit where the run's own commits were checked."""
    if not run.order.commands:
        return
    if run.memory.stop_requested:
        run.record(stop_requested=None)
    if observe.in_clean_place(run):
        found = _observe(run, commit)
    else:
        found = _observe_in_workspace(run, commit)
    failed = [seen for seen in found if not seen.passed]
    if failed:
        names = ", ".join(f"{seen.id} ({seen.command})" for seen in failed)
        where = run.tools.layout.relative(run.folder.landing)
        raise BlockedError(
            f"merged with what came meanwhile, the work no longer passes: {names}",
            code="checks_failed",
            fix=[*(f"cat {where}/{seen.id}.txt" for seen in failed), _again(run)],
        )


def _observe_in_workspace(run: Run, commit: str) -> tuple[Observed, ...]:
    """Use the run's workspace, which is put back afterwards."""
    _open(run)
    workspace.restore(run.workspace, commit)
    try:
        return _observe(run, commit)
    finally:
        workspace.restore(run.workspace, run.head)


def _open(run: Run) -> None:
    failed = begin.reopen(run)
    if failed and failed.reason == "stopped":
        raise _interrupted(failed.detail)
    if failed:
        raise BlockedError(begin.setup_failure(run, failed), code="checks_failed")


def _observe(run: Run, commit: str) -> tuple[Observed, ...]:
    remove.remove_tree(run.folder.landing)
    run.folder.landing.mkdir()
    seen, stopped = observe.Bench(run, commit).observe(run.folder.landing)
    if stopped:
        raise _interrupted(stopped)
    for item in seen:
        observe.note_observed(run, item, " on the merged tree")
    return seen


def _interrupted(reason: str) -> InterruptedRun:
    code = ExitCode.INTERRUPTED if "SIGINT" in reason else ExitCode.TERMINATED
    return InterruptedRun(f"not landed: {reason}", exit_code=code)


def _again(run: Run) -> str:
    return f"treadle run {run.row.task_id}" if run.row.task_id else "treadle run --goal …"
