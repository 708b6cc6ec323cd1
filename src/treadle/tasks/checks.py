"""Whether a task's work is tested, reviewed and ready: as observed, else as letters claim."""

from typing import NamedTuple

from treadle.errors import BlockedError
from treadle.store.runs import CheckRow
from treadle.store.store import Reader
from treadle.store.tasks import TaskRow

TESTS_PASSED = "tests_passed"
PEER_REVIEWED = "peer_reviewed"

_REVIEWED = ("approved", "done")


class Checks(NamedTuple):
    """The four lines of a task's `.checks` file, in order."""

    tests_passed: bool
    coverage_threshold_met: bool
    peer_reviewed: bool
    ready_for_merge: bool


def standing(store: Reader, task: TaskRow) -> Checks:
    """Return how a task stands now."""
    tested = tests_passed(store, task) is True
    covered = _coverage(task, observed(store, task), tested)
    claimed = store.task_claims(task.task_id).get(PEER_REVIEWED)
    reviewed = task.lane in _REVIEWED or (claimed is not None and claimed.value)
    return Checks(tested, covered, reviewed, tested and covered and reviewed)


def tests_passed(store: Reader, task: TaskRow) -> bool | None:
    """Tell whether the task's tests passed; None when nobody has seen or said anything."""
    if seen := observed(store, task):
        wanted = {item.id for item in task.criteria if item.verify}
        passed = {row.criterion_id for row in seen if row.passed}
        return wanted <= passed and len(passed) == len(seen)
    if any(item.verify for item in task.criteria):
        return None
    claimed = store.task_claims(task.task_id).get(TESTS_PASSED)
    return claimed.value if claimed else None


def observed(store: Reader, task: TaskRow) -> list[CheckRow]:
    """Return what treadle itself saw in the last check of the task's work."""
    return store.task_checks(task.task_id)


def require(store: Reader, task: TaskRow, *, person: bool) -> None:
    """Refuse to complete untested work; a person's word stands in for tests nobody has run."""
    found = tests_passed(store, task)
    if found or (found is None and person):
        return
    why = "its tests do not pass" if found is False else "nobody has seen its tests pass"
    id_ = task.task_id
    raise BlockedError(
        f"{id_} cannot be completed while tests_passed is false: {why}",
        code="tests_not_passed",
        fix=[
            f"treadle run {id_}",
            f"treadle mail send --intent test_results --status completed --task {id_}"
            f" --from TESTER --to {task.owner or 'human'}",
            f'treadle task move {id_} --to done --force --reason "why"',
        ],
        details={"task_id": id_, "lane": task.lane, "owner": task.owner},
    )


def _coverage(task: TaskRow, seen: list[CheckRow], tested: bool) -> bool:
    """Tell whether what names coverage holds; where nothing does, the tests speak for it."""
    named = {item.id for item in task.criteria if "coverage" in item.text.lower()}
    found = [row.passed for row in seen if row.criterion_id in named]
    return all(found) if found else tested
