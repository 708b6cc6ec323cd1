"""What runs leave when they end: commands that failed, and work that waits to be landed."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from treadle.contract.events import StepError
from treadle.engine.run import memory
from treadle.engine.run.memory import RunMemory
from treadle.engine.show import view
from treadle.files import walk
from treadle.layout import STDERR, STDOUT, Layout, RunLayout
from treadle.store.runs import CheckRow, RunRow
from treadle.store.store import Reader
from treadle.tasks import tries

_LINES = 15
_BYTES = 8 << 10


class FailedCommand(NamedTuple):
    """A command that failed, with the end of its output and the full path of its log."""

    name: str
    command: str
    log: str
    lines: tuple[str, ...]
    note: str | None = None


def failed_commands(layout: Layout, store: Reader, row: RunRow) -> tuple[FailedCommand, ...]:
    """Return the commands for which a run has not passed; those of its last check count."""
    if row.status == "passed":
        return ()
    known, folder = memory.recall(store, row.run_id), layout.run(row.run_id)
    if known.reason_code == StepError.SETUP_FAILED:
        return (_setup(layout, row, folder),)
    if found := failed_routine(layout, store, row):
        return found
    rows = store.checks(row.run_id)
    if known.reason_code == memory.WAITS_FOR_APPROVAL and known.protected:
        return tuple(_with_base_files(layout, known, rows))
    last = max((item.step_index for item in rows), default=0)
    is_broken = known.reason_code == memory.CHECK_BROKEN
    return tuple(
        _failed(item, folder.steps / (item.log or ""))
        for item in rows
        if item.step_index == last
        and not item.passed
        and (item.note if is_broken else item.phase == "check")
    )


def _failed(item: CheckRow, log: Path) -> FailedCommand:
    return FailedCommand(item.criterion_id, item.command, str(log), last_lines(log), item.note)


def _with_base_files(
    layout: Layout, known: RunMemory, rows: list[CheckRow]
) -> Iterator[FailedCommand]:
    """Yield what fails with the protected files as the base has them."""
    found = known.protected
    folder = (layout.shared / found.diff).parent / "checks" / "base" if found else None
    commands = {item.criterion_id: item.command for item in rows}
    for id_ in found.failing if found and folder else ():
        log = folder / f"{id_}.txt" if folder else Path()
        note = "with the protected files as the base has them"
        yield FailedCommand(id_, commands.get(id_, ""), str(log), last_lines(log), note)


def failed_routine(layout: Layout, store: Reader, row: RunRow) -> tuple[FailedCommand, ...]:
    """Return the script of a run whose only step failed."""
    asked, steps = view.asked_order(layout, row.run_id).get("script"), store.steps(row.run_id)
    if not isinstance(asked, dict) or not steps or steps[-1].status != "fail":
        return ()
    logs = [layout.shared / steps[-1].step_dir / "logs" / name for name in (STDERR, STDOUT)]
    log = next((path for path in logs if last_lines(path)), logs[0])
    command = shlex.join(map(str, asked.get("argv", ())))
    return (FailedCommand(row.routine or "", command, str(log), last_lines(log)),)


def _setup(layout: Layout, row: RunRow, folder: RunLayout) -> FailedCommand:
    logs = [folder.folder / "setup" / name for name in (STDERR, STDOUT)]
    log = next((path for path in logs if last_lines(path)), logs[0])
    asked = view.asked_order(layout, row.run_id).get("workspace")
    words = asked.get("setup") if isinstance(asked, dict) else None
    command = shlex.join(map(str, words)) if isinstance(words, list) else ""
    return FailedCommand("workspace.setup", command, str(log), last_lines(log))


def last_lines(log: Path | str) -> tuple[str, ...]:
    """Return the end of a log."""
    return tuple(walk.tail(log, _BYTES).rstrip().splitlines()[-_LINES:])


_LOOKED_AT = 500


def spec_of(store: Reader, row: RunRow) -> str | None:
    """Return the spec that a run carries out."""
    message = store.message(row.message_id) if row.message_id else None
    return message.spec if message else None


def unlanded_document(store: Reader) -> list[dict[str, object]]:
    """Return what waits to be landed, with the command for it; undone work of a task too.

    About an undone spec the desk asks, so that it is not listed twice.
    """
    rows = store.runs(_LOOKED_AT, status="passed")
    found = (it for it in rows if _waits_to_land(store, it, undone=it.message_id is None))
    return [_document(store, row) for row in found]


def unlanded(store: Reader) -> list[RunRow]:
    """Return the newest passed runs whose work waits to be landed, newest first."""
    rows = store.runs(_LOOKED_AT, status="passed")
    return [row for row in rows if _waits_to_land(store, row)]


def landing_command(store: Reader, run_id: str | None) -> str | None:
    """Return the command that lands a run, if it has passed and waits for that."""
    row = store.run(run_id) if run_id else None
    is_left = row and row.status == "passed" and _waits_to_land(store, row)
    return _lands(store, row) if row and is_left else None


def _lands(store: Reader, row: RunRow) -> str:
    """Return what goes on with a passed run, or first with one below it that was refused."""
    known = memory.recall(store, row.run_id)
    for below in filter(None, map(store.run, known.stacked_on)):
        if memory.recall(store, below.run_id).land_refused and _waits_to_land(store, below):
            return _lands(store, below)
    command = memory.next_commands(row, known)[1]
    return command.replace(row.run_id, view.short_name(store, row.run_id))


def _waits_to_land(store: Reader, row: RunRow, *, undone: bool = False) -> bool:
    task = store.task(row.task_id) if row.task_id else None
    if row.branch is None or (task and task.lane in ("done", "canceled")):
        return False
    message = store.message(row.message_id) if row.message_id else None
    if message and row.run_id <= (message.after_run or ""):  # it began anew without this one
        return False
    known = memory.recall(store, row.run_id)
    if known.trial and tries.chosen(store, row) != row:
        return False
    return memory.may_land(store, row) and (undone or known.landed is None)


def _document(store: Reader, row: RunRow) -> dict[str, object]:
    known = memory.recall(store, row.run_id)
    refusal = known.land_refused
    return {
        "run_id": row.run_id,
        "name": row.task_id or spec_of(store, row),
        "goal": row.goal,
        "ended_at": row.ended_at,
        "reason": refusal.message if refusal else "it was undone" if known.undone else None,
        "next": _lands(store, row),
    }
