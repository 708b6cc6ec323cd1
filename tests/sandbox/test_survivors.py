"""Nothing outlives the orchestrator, in any tier."""

import pytest

from tests.crash import survivors


def test_nothing_survives_in_any_tier():
    report = survivors.trials(len(survivors.tiers()))
    assert report.broken == []


@pytest.mark.real
def test_nothing_survives_fifty_kills():
    report = survivors.trials(50)
    assert (report.tried, report.broken) == (50, [])
