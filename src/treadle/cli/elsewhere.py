"""Look after runs that other processes drive, for commands that hardly ever meet one."""

import os

from treadle.cli import output
from treadle.cli.project import watcher
from treadle.engine import session
from treadle.engine.elsewhere import queue, restore
from treadle.engine.lock import is_abandoned as is_abandoned
from treadle.errors import LockedError, TreadleError
from treadle.layout import Layout
from treadle.project.context import open_context
from treadle.project.root import here
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store


def call_off(store: Store, row: RunRow, reason: str) -> None:
    """Take a waiting run out of the queue."""
    queue.call_off(store, row, reason, store.now())


def bring_steps(layout: Layout, store: Reader, row: RunRow) -> None:
    """Fetch the step folders that are not here; without them there is less to show."""
    try:
        restore.look(layout, store, row)
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
