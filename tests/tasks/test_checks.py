"""Whether work is tested, reviewed and ready."""

from datetime import timedelta

import pytest

from tests.store.rows import RUN, check_row, cursor, run_row, step_row
from treadle.contract import Criterion
from treadle.errors import BlockedError
from treadle.ids import HUMAN
from treadle.store.runs import History
from treadle.store.task_changes import TaskClaimRow
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, task
from treadle.tasks.claim import Holder

ASKED = (Criterion("AC1", "Tests pass", "pytest"), Criterion("AC2", "95% coverage", "cov"))


@pytest.fixture
def tested(store, now):
    """Add a task with commands, and a run in which they gave these results."""
    added = task.add(store, TaskRow("T-9", "goal", criteria=ASKED), now)

    def observe(*passed):
        store.insert_run(run_row(task_id="T-9"), (), {})
        rows = [
            check_row(criterion_id=item.id, passed=value)
            for item, value in zip(ASKED, passed, strict=False)
        ]
        store.advance(RUN, History((step_row(run_id=RUN),), checks=rows), cursor(), 1)
        return task.standing(store, store.task(added.task_id))

    return observe


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        ((True, True), (True, True, False, False)),
        ((True, False), (False, False, False, False)),
        ((False, True), (False, True, False, False)),
        ((True,), (False, False, False, False)),
    ],
)
def test_checks_come_from_what_was_observed(tested, passed, expected):
    assert tuple(tested(*passed)) == expected


def test_failed_tests_stop_even_a_person(tested, store, now):
    tested(True, False)
    with pytest.raises(BlockedError, match="its tests do not pass"):
        claim.finish_task(store, "T-9", Holder(HUMAN), now)
    forced = claim.move_task(store, "T-9", "done", Holder(HUMAN), now, "it is fine", force=True)
    assert forced.after.lane == "done"


def test_a_person_may_complete_what_nobody_has_tested_and_an_agent_may_not(store, now):
    task.add(store, TaskRow("T-9", "goal", criteria=ASKED), now)
    with pytest.raises(BlockedError, match="nobody has seen its tests pass"):
        claim.finish_task(store, "T-9", Holder("ada"), now)
    assert claim.finish_task(store, "T-9", Holder(HUMAN), now + timedelta(1)).after.lane == "done"


def test_an_approved_task_is_reviewed(store, add):
    found = task.standing(store, store.task(add("approved")))
    assert found == (True, True, True, True)


COVERAGE = (Criterion("AC1", "Tests pass"), Criterion("AC2", "95% coverage"))


@pytest.mark.parametrize(
    ("criteria", "said", "expected"),
    [
        (COVERAGE, {"tests_passed": True}, (True, False)),
        (COVERAGE, {"tests_passed": True, "coverage_threshold_met": True}, (True, True)),
        (COVERAGE, {"tests_passed": True, "coverage_threshold_met": False}, (True, False)),
        (COVERAGE[:1], {"tests_passed": True}, (True, True)),
        (ASKED, {"tests_passed": True, "coverage_threshold_met": True}, (False, False)),
    ],
)
def test_coverage_is_met_only_when_something_judged_it(store, now, criteria, said, expected):
    row = task.add(store, TaskRow("T-9", "goal", criteria=criteria), now)
    for name, value in said.items():
        store.claim_check(TaskClaimRow("T-9", name, value, "qa", row.updated_at))
    assert task.standing(store, row)[:2] == expected
