"""Reach runs of the fleet from commands that hardly ever meet one; loaded only then."""

from treadle.cli import output
from treadle.engine import queue, restore
from treadle.errors import TreadleError
from treadle.layout import Layout
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store


def call_off(store: Store, row: RunRow, reason: str) -> None:
    """Take a waiting run out of the queue."""
    queue.call_off(store, row, reason, store.now())


def bring(layout: Layout, store: Reader, row: RunRow) -> None:
    """Fetch the step folders that are not here; without them there is less to show."""
    try:
        restore.look(layout, store, row)
    except TreadleError as error:
        output.warn(f"its files are elsewhere and cannot be fetched: {error.message}")
