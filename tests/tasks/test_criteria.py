import pytest

from treadle.contract import Criterion
from treadle.errors import UsageError
from treadle.tasks import task


def test_criteria_are_numbered_or_named():
    assert task.criteria_from_flags("g", ["Tests pass", "AC7: No lint"], ["AC7=ruff check"]) == (
        Criterion("AC1", "Tests pass"),
        Criterion("AC7", "No lint", "ruff check"),
    )


def test_without_criteria_the_goal_is_one():
    assert task.criteria_from_flags("Ship it", [], []) == (Criterion("AC1", "Ship it"),)


@pytest.mark.parametrize(
    ("texts", "verify", "why"),
    [
        (["AC1: a", "AC1: b"], [], "twice"),
        (["a"], ["AC2=x"], "did you mean AC1"),
        (["a"], ["AC1"], "write it as"),
        (["a"], ["AC1=x", "AC1=y"], "twice"),
        ([" "], [], "must not be empty"),
    ],
)
def test_criteria_refuse(texts, verify, why):
    with pytest.raises(UsageError, match=why):
        task.criteria_from_flags("g", texts, verify)


def test_configured_commands_reach_criteria_that_name_their_key():
    asked = (Criterion("AC1", "coverage stays high"), Criterion("AC2", "coverage", "mine"))
    found = task.with_configured_commands(asked, {"coverage": "pytest --cov"})
    assert [item.verify for item in found] == ["pytest --cov", "mine"]
