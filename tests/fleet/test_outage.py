"""A database that goes away while a fleet works."""

import os
import signal
import time

import pytest

from tests.fleet.lab import Lab, database, postgres, start, wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture
def server():
    made = postgres()
    yield made
    start(made)
    made.cleanup()


@pytest.fixture
def lab(tmp_path, server):
    made = Lab(tmp_path, {"TREADLE_STORE": database(server.get_uri(), "outage")})
    made.env["TREADLE_FLEET_DEAD_AFTER"] = "5"
    made.make()
    yield made
    made.close()


def test_an_outage_longer_than_the_deadline_kills_nobody_and_repeats_no_agent(lab, server):
    hold = lab.folder / "hold"
    hold.touch()
    lab.make_agent(f'while [ "$role" = do ] && [ -e {hold} ]; do sleep 0.1; done')
    (run_id,) = lab.queue()
    lab.worker()
    lab.worker()
    wait_for(lambda: [s for s in lab.spawned() if s[1] == "do"])
    os.kill(server.get_pid(), signal.SIGQUIT)
    hold.unlink()
    time.sleep(7)
    start(server)
    lab.wait_over(1)
    assert [words[1] for words in lab.spawned()] == ["plan", "do", "check"]
    assert lab.show(run_id)["claim_epoch"] == 1
    assert {row["status"] for row in lab.status()["workers"]} == {"alive"}
