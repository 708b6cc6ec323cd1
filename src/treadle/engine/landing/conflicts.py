"""Tell which runs would conflict if both landed, from what they noted when they ended."""

from collections.abc import Iterable
from typing import NamedTuple

from treadle.engine.run import memory
from treadle.engine.run.memory import ClashNote
from treadle.store.runs import RunRow
from treadle.store.store import Reader


class Clash(NamedTuple):
    """Two runs whose branches cannot be merged, and where."""

    runs: tuple[str, str]
    files: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Say it to the user."""
        one, other = self.runs
        return f"runs {one} and {other} would conflict in {', '.join(self.files)}"


def clashes(store: Reader, rows: Iterable[RunRow]) -> list[Clash]:
    """Return the conflicts that these runs noted and that still stand."""
    found = []
    for row in rows:
        noted = memory.recall(store, row.run_id).weather
        if noted and is_active(store, row):
            found += [
                Clash((note.run_id, row.run_id), note.files)
                for note in noted
                if _stands(store, row, note)
            ]
    return found


def is_active(store: Reader, row: RunRow) -> bool:
    """Tell whether a run has work that may still land."""
    if row.status == "failed" or row.head_commit == row.base_commit:
        return False
    return memory.recall(store, row.run_id).landed_commit is None


def _stands(store: Reader, row: RunRow, note: ClashNote) -> bool:
    other = store.run(note.run_id)
    return (
        other is not None
        and row.head_commit == note.head
        and other.head_commit == note.other_head
        and is_active(store, other)
    )
