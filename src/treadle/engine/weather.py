"""Tell which runs would conflict if both landed, from what they noted when they ended."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from treadle.engine import whereabouts
from treadle.store.runs import RunRow
from treadle.store.store import Reader

KEY = "weather"


class Storm(NamedTuple):
    """Two runs whose branches cannot be merged, and where."""

    runs: tuple[str, str]
    files: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Say it to the user."""
        one, other = self.runs
        return f"runs {one} and {other} would conflict in {', '.join(self.files)}"


def storms(store: Reader, rows: Iterable[RunRow]) -> list[Storm]:
    """Return the conflicts that these runs noted and that still stand."""
    found = []
    for row in rows:
        noted = store.kv_value(row.run_id, KEY)
        if isinstance(noted, list) and is_active(store, row):
            found += [_storm(row, note) for note in noted if _stands(store, row, note)]
    return found


def is_active(store: Reader, row: RunRow) -> bool:
    """Tell whether a run has work that may still land."""
    if row.status == "failed" or row.head_commit == row.base_commit:
        return False
    return (
        whereabouts.now({key: store.kv_value(row.run_id, key) for key in ("landed", "undone")})
        is None
    )


def _stands(store: Reader, row: RunRow, note: Mapping[str, object]) -> bool:
    other = store.run(str(note.get("run_id")))
    return (
        other is not None
        and row.head_commit == note.get("head")
        and other.head_commit == note.get("other_head")
        and is_active(store, other)
    )


def _storm(row: RunRow, note: Mapping[str, object]) -> Storm:
    files = note.get("files")
    names = tuple(map(str, files)) if isinstance(files, list) else ()
    return Storm((str(note.get("run_id")), row.run_id), names)
