"""Which of several runs is the best."""

import pytest

from treadle.store.runs import RunRow
from treadle.tasks.tries import Contender, Trial

ROW = RunRow("2", "", "g", "passed", 2, 6, "PASS", "")


def contender(status="passed", iteration=2, lines=5, row=ROW, **known):
    usual = {"failing": (), "protected": (), "cost_usd": 1.0, "tokens": 9}
    row = row._replace(status=status, iteration=iteration)
    return Contender(row=row, trial=Trial("s", "a", lines), **(usual | known))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"status": "stopped", "protected": ("t.py",)}, {"status": "failed", "failing": ("AC1",)}),
        ({"status": "failed", "failing": ("AC1",)}, {"status": "failed", "failing": None}),
        ({"iteration": 5}, {"protected": ("t.py",)}),
        ({"iteration": 5}, {"status": "stopped"}),
        ({"iteration": 1, "cost_usd": 9.0}, {"iteration": 2}),
        ({"cost_usd": 0.5, "lines": 99}, {"cost_usd": 1.0, "lines": 1}),
        ({"cost_usd": 5.0, "lines": 99}, {"cost_usd": None, "lines": 1}),
        ({"lines": 4}, {"lines": 5}),
        ({"row": ROW._replace(run_id="1")}, {}),
    ],
)
def test_the_better_comes_first(better, worse):
    assert contender(**better).order < contender(**worse).order
