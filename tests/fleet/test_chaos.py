"""A fleet that is killed, frozen and cut off while it works."""

import pytest

from tests.fleet.chaos import Chaos, Wishes

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def test_every_step_is_committed_once_whatever_happens_to_workers_and_database(tmp_path):
    chaos = Chaos(tmp_path, Wishes(runs=14, workers=4, slots=2, pause=0.2, timeout=200))
    try:
        report = chaos.go()
    finally:
        chaos.close()
    print(report)
    assert report.ok, f"{report}\n{chaos.lab.words()[-3000:]}"
