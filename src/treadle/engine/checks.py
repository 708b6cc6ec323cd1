"""Run the criteria's own commands and write down what was seen."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import UNSET, structs

from treadle.contract.event import EventType
from treadle.contract.request import AskedCriterion, Observed
from treadle.engine import surroundings
from treadle.engine.run import Run
from treadle.engine.stage import Stage
from treadle.files import atomic, walk
from treadle.proc.keeper import Ended, Limits
from treadle.store.rows.check import CheckRow, Phase

_MAX_LOG = 16 << 20


class Observation(NamedTuple):
    """What all commands showed; `stopped` says why the rest did not run."""

    seen: tuple[Observed, ...]
    rows: tuple[CheckRow, ...]
    stopped: str | None

    @property
    def failing(self) -> tuple[str, ...]:
        """Return the ids of the criteria whose command failed."""
        return tuple(item.id for item in self.seen if not item.passed)


NOTHING = Observation((), (), None)


def observe(run: Run, stage: Stage, phase: Phase) -> Observation:
    """Run every criterion's command in the workspace, or reuse what this tree showed before."""
    if not run.order.commands:
        return NOTHING
    folder = stage.checks / "before" if phase == "before" else stage.checks
    folder.mkdir(parents=True)
    seen: list[Observed] = []
    for criterion in run.order.commands:
        found, stopped = _observe_one(run, criterion, folder, phase)
        if stopped:
            return Observation(tuple(seen), (), stopped)
        seen.append(found)
    _write_summary(folder, seen)
    _note(run, phase, seen)
    return Observation(tuple(seen), _rows(run, stage, phase, seen), None)


def expose(stage: Stage) -> None:
    """Let the check agent read the logs; treadle keeps its own copies out of reach."""
    if not stage.checks.is_dir():
        return
    target = stage.folder / "files" / "checks"
    target.mkdir(parents=True)
    for entry in walk.walk(stage.checks):
        if not entry.is_folder and "/" not in entry.path:
            atomic.create(target / entry.path, (stage.checks / entry.path).read_bytes())


def _observe_one(
    run: Run, criterion: AskedCriterion, folder: Path, phase: Phase
) -> tuple[Observed, str | None]:
    command = "" if criterion.verify is UNSET else criterion.verify
    log = folder / f"{criterion.id}.txt"
    reused = run.tools.store.observed(run.id, run.tree, command) if phase == "check" else None
    if reused and reused.log and (old := run.folder.steps / reused.log).is_file():
        atomic.create(log, old.read_bytes())
        return _from_row(criterion.id, reused), None
    return execute(run, criterion, log)


def execute(run: Run, criterion: AskedCriterion, log: Path) -> tuple[Observed, str | None]:
    """Run one criterion's command in the workspace; the text says why it was cut off."""
    command = "" if criterion.verify is UNSET else criterion.verify
    limits = Limits(wall=run.order.checks.timeout, idle=None, output_bytes=_MAX_LOG)
    ended = surroundings.execute(run, ("sh", "-c", command), log, log, limits)
    seen = _from_end(run, criterion.id, command, ended)
    return _explained(run, seen, log), ended.detail if ended.reason == "stopped" else None


def _explained(run: Run, seen: Observed, log: Path) -> Observed:
    """Say which denial of the sandbox a failed command met, if its log tells."""
    if seen.passed or seen.note is not UNSET:
        return seen
    told = surroundings.denied(run, [log], surroundings.for_command(run))
    return structs.replace(seen, note=told) if told else seen


def _from_end(run: Run, id_: str, command: str, ended: Ended) -> Observed:
    note: dict[str, str] = {}
    if ended.reason == "timeout":
        note["note"] = f"took longer than checks.timeout = {run.order.checks.timeout:g} s"
    elif ended.reason != "exit":
        note["note"] = ended.detail or ended.reason
    return Observed(
        id=id_,
        command=command,
        passed=ended.reason == "exit" and ended.exit_code == 0,
        exit_code=ended.exit_code,
        seconds=round(ended.seconds, 3),
        log=f"files/checks/{id_}.txt",
        **note,
    )


def _from_row(id_: str, row: CheckRow) -> Observed:
    return Observed(
        id=id_,
        command=row.command,
        passed=row.passed,
        exit_code=row.exit_code,
        seconds=row.seconds,
        log=f"files/checks/{id_}.txt",
        note=f"same tree and command as in step {row.step_index}",
    )


def _write_summary(folder: Path, seen: Sequence[Observed]) -> None:
    text = json.dumps([_as_json(item) for item in seen], indent=2)
    atomic.create(folder / "observed.json", text.encode() + b"\n")


def _as_json(item: Observed) -> dict[str, object]:
    fields = structs.asdict(item)
    fields["pass"] = fields.pop("passed")
    return {key: value for key, value in fields.items() if value is not UNSET}


def _note(run: Run, phase: Phase, seen: Sequence[Observed]) -> None:
    if phase == "before":
        for item in seen:
            text = "already passes" if item.passed else "fails as expected"
            message = f"{item.id} {text} before any work"
            run.timeline.add(EventType.CHECK_BEFORE, message, id=item.id, passed=item.passed)
        return
    for item in seen:
        note_observed(run, item)


def note_observed(run: Run, item: Observed, where: str = "") -> None:
    """Write down what one command showed."""
    word = "passed" if item.passed else "failed"
    run.timeline.add(
        EventType.CHECK_OBSERVED,
        f"{item.id} {word}{where}: {item.command}",
        id=item.id,
        passed=item.passed,
        exit_code=item.exit_code,
    )


def _rows(run: Run, stage: Stage, phase: Phase, seen: Sequence[Observed]) -> tuple[CheckRow, ...]:
    step = run.folder.step(stage.index, stage.role).name
    folder = "files/checks/before" if phase == "before" else "files/checks"
    return tuple(
        CheckRow(
            run_id=run.id,
            step_index=stage.index,
            criterion_id=item.id,
            phase=phase,
            command=item.command,
            tree=run.tree,
            passed=item.passed,
            exit_code=item.exit_code,
            seconds=item.seconds,
            log=f"{step}/{folder}/{item.id}.txt",
            note=None if item.note is UNSET else item.note,
        )
        for item in seen
    )
