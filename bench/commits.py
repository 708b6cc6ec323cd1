"""P4, the store alone: many threads that commit steps, against one commit at a time."""

import sys
import threading
from pathlib import Path

from bench import bare, store
from bench.harness import Bench, Command
from bench.lab import Lab
from bench.told import measured
from treadle.layout import Layout
from treadle.store.runs import Cursor, Event, History, StepRow
from treadle.store.store import Store

THREADS = 64
_NOW = "2026-01-01T00:00:00.000000Z"


def benches(lab: Lab) -> list[Bench]:
    """Return the commit rate; three times the rate is a third of the time."""
    each = lab.size(20, 5)

    def candidate(folder: Path) -> Command:
        (folder / ".treadle").mkdir(parents=True)
        store.fill(folder, THREADS, owner=None, active=THREADS)
        return lab.part("commits", "candidate", folder, each)

    def floor(folder: Path) -> Command:
        folder.mkdir()
        return lab.part("commits", "floor", folder, each)

    name, what = f"{THREADS} threads x {each} commits", "the same commits one at a time"
    third = 1 / 3
    return [Bench("P4-rate", name, what, candidate, floor, third, third, True, lab.rounds)]


def _candidate(root: Path, each: int) -> None:
    own = Store.open(Layout(root))
    ids = [row.run_id for row in own.running()]
    threads = [threading.Thread(target=_commit, args=(own, run_id, each)) for run_id in ids]
    with measured():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    own.close()


def _commit(own: Store, run_id: str, each: int) -> None:
    for index in range(5, 5 + each):
        folder = f".treadle/runs/{run_id}/steps/{index:03d}-plan"
        row = StepRow(run_id, index, "plan", 1, "ok", folder, _NOW, _NOW, "Looked at it.")
        events = [
            Event(20 + 2 * index + at, _NOW, "step_committed", "step committed", {"role": "plan"})
            for at in range(2)
        ]
        own.advance(row.run_id, History((row,), events), Cursor("running", 1, index), 1)


def _floor(folder: Path, each: int) -> None:
    database = bare.open_store(folder / "store.db")
    with measured():
        for number in range(THREADS * each):
            bare.commit(database, "run", number)


if __name__ == "__main__":
    side = _candidate if sys.argv[1] == "candidate" else _floor
    side(Path(sys.argv[2]), int(sys.argv[3]))
