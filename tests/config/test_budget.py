"""Reading `--budget key=value`."""

import pytest

from treadle.config import budget
from treadle.errors import UsageError


def test_budgets_are_read_by_name():
    items = ["max_iterations=3", "max_cost_usd=0.5", "max_risky_files=0"]
    assert budget.parse(items) == {"max_iterations": 3, "max_cost_usd": 0.5, "max_risky_files": 0}


@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        ("max_iteration=3", "--budget max_iteration: no such budget; did you mean max_iterations?"),
        ("zzz=3", "--budget zzz: no such budget; known: max_iterations, "),
        ("max_tokens", "--budget max_tokens: write it as --budget max_tokens=NUMBER"),
        ("max_tokens=many", "--budget max_tokens must be a whole number above 0, not 'many'"),
        ("max_tokens=null", "--budget max_tokens must be a whole number above 0, not 'null'"),
        ("max_minutes=0", "--budget max_minutes must be a number above 0, not '0'"),
        ("max_minutes=-1", "--budget max_minutes must be a number above 0, not '-1'"),
        ("max_minutes=nan", "--budget max_minutes must be a number above 0, not 'nan'"),
        ("max_iterations=true", "--budget max_iterations must be a whole number from 1"),
    ],
)
def test_bad_budget_is_told_what_is_wrong(item, complaint):
    with pytest.raises(UsageError) as caught:
        budget.parse([item])
    assert caught.value.message.startswith(complaint)


def test_budget_given_twice_is_refused():
    with pytest.raises(UsageError, match="--budget max_tokens is given twice"):
        budget.parse(["max_tokens=1", "max_tokens=2"])
