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


@pytest.mark.real
def test_nothing_is_lost_when_everything_is_killed(wheel):
    assert experiments.kills(wheel, "group", sample=3).broken == []


@pytest.mark.real
def test_nothing_is_promised_on_a_full_disk(wheel):
    assert experiments.failures(wheel, errno.ENOSPC, lasts=True, sample=3).broken == []


@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", [20, pytest.param(60, marks=pytest.mark.all)])
@pytest.mark.parametrize("victim", experiments.VICTIMS)
def test_many_kills(wheel, victim, number):
    report = experiments.kills(wheel, victim, sample=number)
    assert report.tried == number
    assert report.broken == []


@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", [20, pytest.param(60, marks=pytest.mark.all)])
def test_many_kills_of_a_run_that_waits_for_a_person(number):
    with Crew("tests.crash.wheel:Stopped") as crew:
        report = experiments.kills(crew, "group", sample=number)
    assert report.tried == number
    assert report.broken == []


@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", [40, pytest.param(120, marks=pytest.mark.all)])
@pytest.mark.parametrize("kind", experiments.KINDS)
def test_many_power_cuts(wheel, kind, number):
    report = experiments.power(wheel, kind, number)
    assert report.tried == number
    assert report.broken == []
