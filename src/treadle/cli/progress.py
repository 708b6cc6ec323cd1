"""Show a run at work: one moving line on a terminal, one line per step elsewhere."""

import sys
import threading

from treadle.engine.progress import Progress, Watch
from treadle.text import line

_WIDTH = 100


def watcher(quiet: bool) -> Watch:
    """Return what tells the user how the work goes, on stderr."""
    if quiet and not sys.stderr.isatty():
        return lambda moment: None
    return _Screen(moving=sys.stderr.isatty()).show


class _Screen:
    """Writes lines; runs that work side by side share it."""

    def __init__(self, moving: bool) -> None:
        self._moving = moving
        self._turn = threading.Lock()
        self._open = False

    def show(self, moment: Progress) -> None:
        """Show one moment."""
        if moment.kind in ("step", "tick") and not self._moving:
            return
        with self._turn:
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
