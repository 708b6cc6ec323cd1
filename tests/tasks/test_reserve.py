"""Files kept to a task."""

from datetime import timedelta

import pytest

from treadle.errors import BlockedError, UsageError
from treadle.ids import utc
from treadle.tasks.claim import Holder, claim, conflicts, give_back, of_others, reserve

ADA = Holder("ada")


@pytest.mark.parametrize(
    ("pattern", "path", "hit"),
    [
        ("src/auth/**", "src/auth/a/b.py", True),
        ("src/auth/**", "src/author.py", False),
        ("src/auth", "src/auth/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("**/test_?.py", "test_a.py", True),
        ("**/test_?.py", "x/y/test_a.py", True),
        ("a+b.txt", "aab.txt", False),
    ],
)
def test_patterns(store, add, now, pattern, path, hit):
    task_id = add()
    reserve(store, task_id, [pattern], ADA, now)
    rows = store.reservations(utc(now))
    assert bool(conflicts(of_others(rows, "other", "bob"), [path])) == hit
    assert of_others(rows, task_id, "bob") == of_others(rows, "other", "ada") == []


def test_a_reservation_ends(store, add, now):
    task_id = add()
    reserve(store, task_id, ["x"], ADA, now, minutes=5)
    assert store.reservations(utc(now + timedelta(minutes=6))) == []
    assert give_back(store, task_id, ADA, now) == 1
    assert store.reservations(utc(now)) == []


@pytest.mark.parametrize("pattern", ["", "/etc/passwd", "../x", "a/../../b"])
def test_patterns_stay_inside(store, add, now, pattern):
    with pytest.raises(UsageError, match="cannot be reserved"):
        reserve(store, add(), [pattern], ADA, now)


def test_others_tasks_and_patterns_are_refused(store, add, now):
    first, second = add(), add()
    claim(store, first, "ada", now)
    with pytest.raises(BlockedError, match="held by ada"):
        reserve(store, first, ["x"], Holder("bob"), now)
    reserve(store, first, ["x"], ADA, now)
    with pytest.raises(BlockedError, match="x is reserved by ada for"):
        reserve(store, second, ["x"], Holder("bob"), now)
