"""Disturb the real command at a sample of its writes; `scripts/crashtest` takes all of them."""

import errno

import pytest

from tests.crash import experiments
from tests.crash.crew import Crew
from tests.crash.machine import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"NO CRASH TESTS HERE: {missing()}")


@pytest.fixture(scope="module")
def wheel():
    with Crew("tests.crash.wheel:Wheel") as crew:
        yield crew


def test_nothing_is_lost_when_everything_is_killed(wheel):
    assert experiments.kills(wheel, "group", sample=3).broken == []


@pytest.mark.real
def test_nothing_is_promised_on_a_full_disk(wheel):
    assert experiments.failures(wheel, errno.ENOSPC, lasts=True, sample=3).broken == []


@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("victim", experiments.VICTIMS)
def test_many_kills(wheel, victim):
    report = experiments.kills(wheel, victim, sample=60)
    assert report.tried == 60
    assert report.broken == []


@pytest.mark.real
@pytest.mark.timeout(1200)
def test_many_kills_of_a_run_that_waits_for_a_person():
    with Crew("tests.crash.wheel:Stopped") as crew:
        report = experiments.kills(crew, "group", sample=60)
    assert report.tried == 60
    assert report.broken == []


@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", experiments.KINDS)
def test_many_power_cuts(wheel, kind):
    report = experiments.power(wheel, kind, 120)
    assert report.tried == 120
    assert report.broken == []
