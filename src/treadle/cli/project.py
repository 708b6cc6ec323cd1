"""What commands that do work share: the trusted project, progress on stderr, runs of others."""

import contextlib
import os
import sys
import threading
from argparse import Namespace
from collections.abc import Mapping, Sequence

from treadle.cli import output
from treadle.config.load import Loaded
from treadle.engine import session
from treadle.engine.elsewhere import fleet_run
from treadle.engine.lock import is_abandoned as is_abandoned
from treadle.engine.run.memory import Progress, RunMemory, Watch
from treadle.errors import BlockedError, LockedError, TreadleError
from treadle.layout import Layout
from treadle.project import here, refuse_inside_run, trust
from treadle.project.context import Context, open_context
from treadle.project.trust import BroughtCommand
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store
from treadle.text import line

_WIDTH = 100


def open_configured(
    settings: Mapping[str, object] | None = None, *, inside_run: bool = False
) -> tuple[Context, Loaded]:
    """Open the project with its configuration; `settings` go before all others."""
    if not inside_run:
        refuse_inside_run(os.environ)
    context = open_context(here(), os.environ, settings)
    return context, context.settings


def require_trust(args: Namespace, project: Context, more: Sequence[BroughtCommand] = ()) -> None:
    """Stop unless this repository is trusted as it is now; on a terminal, ask."""
    try:
        trust.require(project, more)
    except BlockedError as error:
        if error.code != "trust_changed" or args.json or not _can_ask():
            raise
        output.print_error(error, as_json=False)
        output.line("Trust it from now on? [y/N]", error=True, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise
        trust.grant(project)


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def runs_document(
    found: list[dict[str, object]], tasks: Sequence[str], refused: Sequence[dict[str, object]] = ()
) -> dict[str, object]:
    """Return the document of runs: of one that was asked for alone, its own."""
    if len(found) == 1 and len(tasks) < 2 and not refused:
        return found[0]
    return {"runs": found, "refused": list(refused)}


def run_document(row: RunRow, known: RunMemory) -> dict[str, object]:
    """Return the document of one run."""
    return {
        "run_id": row.run_id,
        "task_id": row.task_id,
        "status": row.status,
        "verdict": row.verdict,
        "iteration": row.iteration,
        "steps": row.current_step_index,
        "branch": row.branch,
        "base_commit": row.base_commit,
        "head_commit": row.head_commit,
        "landed": known.landed and known.landed.commit,
        "undone": known.undone and known.undone.commit,
        "reason": known.reason,
        "reason_code": known.reason_code,
    }


def watcher(quiet: bool) -> Watch:
    """Return what tells the user how the work goes, on stderr."""
    if quiet and not sys.stderr.isatty():
        return lambda moment: None
    return _Screen(moving=sys.stderr.isatty()).show


class _Screen:
    """Writes one moving line on a terminal, one line per step elsewhere; parallel runs share it."""

    def __init__(self, moving: bool) -> None:
        self._moving = moving
        self._turn = threading.Lock()
        self._open = False

    def show(self, moment: Progress) -> None:
        """Show one moment."""
        if moment.kind in ("step", "tick") and not self._moving:
            return
        # Whoever looked may have gone: `| head` ends the show and not the work.
        with self._turn, contextlib.suppress(OSError):
            self._write(moment)

    def _write(self, moment: Progress) -> None:
        text = _line(moment)
        if self._open:
            sys.stderr.write("\r\x1b[K")
        passing = self._moving and moment.kind in ("step", "tick")
        sys.stderr.write(text[:_WIDTH] if passing else text + "\n")
        sys.stderr.flush()
        self._open = passing


def _line(moment: Progress) -> str:
    text = line(moment.message)
    if moment.kind == "run":
        return f"run {moment.run_id}: {text}"
    if moment.kind == "note":
        return f"note: {text}"
    score = f"criteria {moment.passed}/{moment.total}"
    if moment.kind == "ended":
        return f"run {moment.run_id} ended, {score}: {text}"
    minutes, seconds = divmod(int(moment.elapsed), 60)
    turn = f"{moment.iteration}/{moment.max_iterations}"
    head = f"  {moment.role:<5} {turn}  {minutes}:{seconds:02d}  {score}"
    return f"{head}  {text}" if text else head


def call_off(store: Store, row: RunRow, reason: str) -> None:
    """Take a waiting run out of the queue."""
    fleet_run.call_off(store, row, reason, store.now())


def bring_steps(layout: Layout, store: Reader, row: RunRow) -> None:
    """Fetch the step folders that are not here; without them there is less to show."""
    try:
        fleet_run.look(layout, store, row)
    except TreadleError as error:
        output.warn(f"its files are elsewhere and cannot be fetched: {error.message}")


def bring_letters() -> None:
    """Let recovery send them; whoever works in the project right now has done it on entry."""
    project = open_context(here(), os.environ)
    try:
        with session.opened(project, watch=watcher(True)):
            pass
    except LockedError:
        return
    except TreadleError as error:
        output.warn(f"letters of the fleet are not here yet: {error.message}")
