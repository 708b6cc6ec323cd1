"""Conflicts: which runs that have not landed change the same files, and in what order to land."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from treadle.engine.landing import several
from treadle.engine.run import memory
from treadle.engine.run.memory import Clash
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.web.site import Document, Site, WebRequest

LOOKED_AT = 50  # runs that are asked for conflicts


class Clashing(NamedTuple):
    """Conflicts in one line: the file that most runs touch, and how many there are."""

    runs: int
    file: str
    others: int


def found(store: Reader) -> list[Clash]:
    """Return which of the newest runs would conflict."""
    return memory.clashes(store, store.runs(LOOKED_AT))


def of_run(store: Reader, row: RunRow) -> list[Clash]:
    """Return the conflicts of one run, also with runs that came after it."""
    return [it for it in found(store) if row.run_id in it.runs]


def in_short(clashes: Sequence[Clash]) -> Clashing | None:
    """Sum conflicts up, if there are any."""
    by_file = _by_file(clashes)
    if not by_file:
        return None
    file = max(by_file, key=lambda name: len(by_file[name]))
    return Clashing(len(by_file[file]), file, len(by_file) - 1)


def document(site: Site, asked: WebRequest) -> Document:
    """Return the files with the runs that touch them, and a suggested order of landing."""
    with site.store() as store:
        clashes = found(store)
        names = {name for clash in clashes for name in clash.runs}
        rows = [row for name in names if (row := store.run(name))]
        number = Counter(name for clash in clashes for name in clash.runs)
        order = several.in_order(store, rows)
    by_file = _by_file(clashes)
    ranked = sorted(by_file.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        "files": [{"file": file, "runs": sorted(runs)} for file, runs in ranked],
        "order": [row._asdict() | {"conflicts": number[row.run_id]} for row in order],
    }


def _by_file(clashes: Sequence[Clash]) -> dict[str, set[str]]:
    touched: dict[str, set[str]] = defaultdict(set)
    for clash in clashes:
        for file in clash.files:
            touched[file].update(clash.runs)
    return touched
