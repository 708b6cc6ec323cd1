"""Ask an agent again when what stopped it may pass by itself, from a clean start each time."""

import time
from collections.abc import Callable
from dataclasses import replace

from treadle.agents import usage
from treadle.agents.backend import AgentResult, AgentSpec, Usage
from treadle.agents.oneshot import keep_attempt
from treadle.contract.event import EventType, StepError
from treadle.engine import edits
from treadle.engine.run import Run
from treadle.engine.stage import Stage
from treadle.files import beneath, remove, walk
from treadle.git import diff, workspace

_TRIES = 3
_GROWTH = 4.0
_LOOK = 0.1


def until_answered(
    run: Run, stage: Stage, spec: AgentSpec, ask: Callable[[], AgentResult]
) -> AgentResult:
    """Return the first answer, or how the last try ended; every failed try is kept."""
    wait, spent = float(spec.config.retry_wait), 0
    used: list[Usage | None] = []
    for number in range(1, _TRIES + 1):
        result = ask()
        spent += result.output_bytes
        used.append(result.usage)
        if number > 1:
            result = replace(result, output_bytes=spent, usage=usage.total(used, (), None))
        if not result.may_retry or number == _TRIES:
            return result
        _set_back(run, stage, spec, result, number)
        if reason := _pause(wait, spec.should_stop):
            return AgentResult(
                error=StepError.INTERRUPTED, message=reason, usage=result.usage, output_bytes=spent
            )
        wait *= _GROWTH
    raise AssertionError("the last try returns")


def _set_back(run: Run, stage: Stage, spec: AgentSpec, result: AgentResult, number: int) -> None:
    """Keep what the try left, and bring workspace and step folder back to where it began."""
    kept = keep_attempt(spec, result.message)
    edits.mend_workspace(run)
    if changes := workspace.changes(run.workspace):
        diff.write(run.workspace, run.head, kept / "workspace.diff", changes)
        workspace.restore(run.workspace, run.head)
    _empty(stage)
    code = str(result.error)
    run.timeline.add(EventType.ATTEMPT_FAILED, result.message, code=code, attempt=number)


def _empty(stage: Stage) -> None:
    """Leave only what treadle itself had put there: the request and the logs of checks."""
    for name in walk.names(stage.folder):
        if name not in ("input.json", "files"):
            remove.remove_tree(stage.folder / name)
    files = stage.folder / "files"
    if not walk.is_folder(files):
        remove.remove_tree(files)
        return
    for name in walk.names(files):
        if name != "checks":
            beneath.remove(stage.folder, f"files/{name}")


def _pause(seconds: float, should_stop: Callable[[], str | None]) -> str | None:
    """Wait, unless somebody wants the run to stop."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if reason := should_stop():
            return reason
        time.sleep(min(left, _LOOK))
    return None
