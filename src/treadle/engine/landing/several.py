"""Runs beside each other: which of them cannot be merged, and landing as many as fit."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from treadle.contract.events import EventType
from treadle.engine.landing import land
from treadle.engine.landing.land import Landed
from treadle.engine.run import memory
from treadle.engine.run.memory import ClashNote
from treadle.engine.run.run import Run, Tools, readable
from treadle.errors import BlockedError, GitError, TreadleError
from treadle.git import build, scratch
from treadle.git.build import Conflict
from treadle.git.scratch import Scratch
from treadle.store.runs import RunRow
from treadle.store.store import Reader


class Left(NamedTuple):
    """A run that did not land, and why."""

    row: RunRow
    error: TreadleError


def in_order(store: Reader, rows: Sequence[RunRow]) -> list[RunRow]:
    """Return first what conflicts with none of the others, and each run after what it builds on."""
    known, found = {row.run_id: row for row in rows}, dict[str, RunRow]()
    clashing = Counter(name for clash in memory.clashes(store, rows) for name in clash.runs)

    def add(row: RunRow) -> None:
        below = memory.recall(store, row.run_id).stacked_on
        for under in (known[name] for name in below if name in known and name not in found):
            add(under)
        found[row.run_id] = row

    for row in sorted(rows, key=lambda row: (clashing[row.run_id], row.run_id)):
        add(row)
    return list(found.values())


def land_several(
    tools: Tools, rows: Iterable[RunRow], onto: str | None, branch: bool
) -> tuple[list[Landed], list[Left]]:
    """Land these runs in this order; what is refused stands in nobody's way."""
    landed: list[Landed] = []
    left: list[Left] = []
    for row in rows:
        if tools.interrupted():
            break
        if any(row.run_id == under.run_id for item in landed for under in item.below):
            continue
        try:
            landed.append(land.land(tools, row, onto=onto, branch=branch))
        except (BlockedError, GitError) as error:
            left.append(Left(row, error))
    return landed, left


_RUNS = 50
_FILES = 20
_TOLD = 100  # as many files as a `patch_applied` event names


def note_conflicts(run: Run) -> None:
    """Write down the conflicts with the newest runs that have not landed."""
    if not memory.may_land(run.tools.store, run.row):
        return
    mine = _touched(run.tools.store, run.id)
    others = [row for row in run.tools.store.runs(_RUNS) if _meets(run, mine, row)]
    found = _conflicts(run, others) if others else ()
    if found or run.memory.weather:
        run.record(weather=found)


def _meets(run: Run, mine: set[str] | None, other: RunRow) -> bool:
    store = run.tools.store
    trial, theirs_too = run.memory.trial, memory.recall(store, other.run_id).trial
    is_instead = trial and theirs_too and trial.set == theirs_too.set  # only one of them lands
    if other.run_id == run.id or is_instead or not memory.may_land(store, other):
        return False
    theirs = _touched(store, other.run_id)
    return mine is None or theirs is None or not mine.isdisjoint(theirs)


def _touched(store: Reader, run_id: str) -> set[str] | None:
    """Return the files a run changed, or None if its events do not name them all."""
    found: set[str] = set()
    for event in store.events(run_id):
        if event.type == EventType.PATCH_APPLIED:
            files = (event.data or {}).get("files")
            if not isinstance(files, list) or len(files) >= _TOLD:
                return None
            found.update(map(str, files))
    return found


def _conflicts(run: Run, others: list[RunRow]) -> tuple[ClashNote, ...]:
    place = scratch.make(run.tools.repo, run.folder.live / "weather")
    try:
        found = [(other, _merge(place, run.head, other.head_commit or "")) for other in others]
    finally:
        scratch.drop(place)
    return tuple(
        ClashNote(other.run_id, run.head, other.head_commit, tuple(map(readable, paths[:_FILES])))
        for other, paths in found
        if paths
    )


def _merge(place: Scratch, ours: str, theirs: str) -> Sequence[str]:
    """Return the files in which two commits cannot be merged."""
    try:
        found = build.merge_commits(place, ours, theirs)
    except GitError:
        return ()  # a branch that is gone lands nowhere
    return found.paths if isinstance(found, Conflict) else ()
