"""When a run ends, find out with which other runs it would conflict."""

from treadle.contract.event import EventType
from treadle.engine import weather
from treadle.engine.run import Run
from treadle.engine.timeline import readable
from treadle.errors import GitError
from treadle.git import commit, scratch
from treadle.git.commit import Conflict
from treadle.git.scratch import Scratch
from treadle.store.runs import RunRow
from treadle.store.store import Reader

_RUNS = 50
_FILES = 20
_TOLD = 100  # as many files as a `patch_applied` event names


def note(run: Run) -> None:
    """Write down the conflicts with the newest runs that have not landed."""
    if not weather.is_active(run.tools.store, run.row):
        return
    mine = _touched(run.tools.store, run.id)
    others = [row for row in run.tools.store.runs(_RUNS) if _meets(run, mine, row)]
    found = _conflicts(run, others) if others else []
    if found or weather.KEY in run.kv:
        run.record(run.cursor(), {weather.KEY: found or None})


def _meets(run: Run, mine: set[str] | None, other: RunRow) -> bool:
    store = run.tools.store
    if other.run_id == run.id or not weather.is_active(store, other):
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


def _conflicts(run: Run, others: list[RunRow]) -> list[dict[str, object]]:
    place = scratch.make(run.tools.repo, run.folder.live / "weather")
    try:
        found = [(other, _merge(place, run.head, other.head_commit or "")) for other in others]
    finally:
        scratch.drop(place)
    return [
        {
            "run_id": other.run_id,
            "head": run.head,
            "other_head": other.head_commit,
            "files": [readable(path) for path in conflict.paths[:_FILES]],
        }
        for other, conflict in found
        if conflict
    ]


def _merge(place: Scratch, ours: str, theirs: str) -> Conflict | None:
    try:
        found = commit.merge_commits(place, ours, theirs)
    except GitError:
        return None  # a branch that is gone lands nowhere
    return found if isinstance(found, Conflict) else None
