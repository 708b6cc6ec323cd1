"""Acceptance criteria, and whether a task's work is tested, reviewed and ready."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treadle.contract import Criterion
from treadle.errors import BlockedError, UsageError
from treadle.ids import hint, is_criterion_id
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


def require_tested(store: Reader, task: TaskRow, *, person: bool) -> None:
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


def criteria_from_flags(
    goal: str, texts: Sequence[str], verify: Sequence[str]
) -> tuple[Criterion, ...]:
    """Number the criteria and attach their commands; without any, AC1 is the goal."""
    criteria: dict[str, Criterion] = {}
    for number, raw in enumerate(texts or [goal], 1):
        id_, text = _split_id(raw, f"AC{number}")
        if id_ in criteria:
            raise UsageError(f"criterion {id_} is given twice; give each --ac its own id")
        criteria[id_] = Criterion(id_, text)
    for id_, command in map(_split_verify, verify):
        if id_ not in criteria:
            near = hint(id_, criteria, or_all=True)
            raise UsageError(f"--verify {id_}: no such criterion{near}")
        if criteria[id_].verify is not None:
            raise UsageError(f"--verify {id_} is given twice")
        criteria[id_] = criteria[id_]._replace(verify=command)
    return tuple(criteria.values())


def with_configured_commands(
    criteria: Sequence[Criterion], commands: Mapping[str, str]
) -> tuple[Criterion, ...]:
    """Attach configured commands to criteria whose text contains their key."""
    return tuple(_configured(criterion, commands) for criterion in criteria)


def _configured(criterion: Criterion, commands: Mapping[str, str]) -> Criterion:
    if criterion.verify is not None:
        return criterion
    for key, command in commands.items():
        if key in criterion.text:
            return criterion._replace(verify=command)
    return criterion


def _split_id(raw: str, default: str) -> tuple[str, str]:
    head, colon, rest = raw.partition(":")
    if colon and rest.strip() and is_criterion_id(head.strip()) and head.strip()[-1].isdigit():
        return head.strip(), rest.strip()
    if not raw.strip():
        raise UsageError("an --ac must not be empty")
    return default, raw.strip()


def _split_verify(raw: str) -> tuple[str, str]:
    id_, equals, command = raw.partition("=")
    if not equals or not command.strip():
        raise UsageError(f'--verify {raw!r}: write it as --verify "AC1=command"')
    return id_.strip(), command.strip()
