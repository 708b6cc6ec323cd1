"""Tell which runs would conflict if both landed, from what they noted when they ended."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from treadle.engine.run import memory
from treadle.store.runs import RunRow
from treadle.store.store import Reader

CONFLICTS = "weather"


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
        noted = store.kv_value(row.run_id, CONFLICTS)
        if isinstance(noted, list) and is_active(store, row):
            found += [_clash(row, note) for note in noted if _stands(store, row, note)]
    return found


def is_active(store: Reader, row: RunRow) -> bool:
    """Tell whether a run has work that may still land."""
    if row.status == "failed" or row.head_commit == row.base_commit:
        return False
    return (
        memory.landed_commit({key: store.kv_value(row.run_id, key) for key in ("landed", "undone")})
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


def _clash(row: RunRow, note: Mapping[str, object]) -> Clash:
    files = note.get("files")
    names = tuple(map(str, files)) if isinstance(files, list) else ()
    return Clash((str(note.get("run_id")), row.run_id), names)
