"""A database that goes away while a fleet works."""

import os
import signal
import time
from pathlib import Path

import psycopg
import pytest

from tests.fleet.lab import Lab, database, postgres, start, wait_for
from tests.fleet.test_leader import queued, take
from tests.fleet.test_letters import ask, heard
from treadle.fleet.site import FleetSite

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


def crash(server):
    """Let the database lose what it has not written, and start it again."""
    pid = server.get_pid()
    os.kill(pid, signal.SIGQUIT)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    start(server)


@pytest.fixture
def tasked(lab):
    return ask(lab)


def test_an_outage_longer_than_the_deadline_kills_nobody_and_agents_stand_still(lab, server):
    hold, ticks = lab.folder / "hold", lab.folder / "ticks"
    hold.touch()
    lab.make_agent(
        f'while [ "$role" = do ] && [ -e {hold} ]; do echo . >> {ticks}; sleep 0.1; done'
    )
    (run_id,) = lab.queue()
    lab.worker()
    lab.worker()
    wait_for(ticks.exists)
    os.kill(server.get_pid(), signal.SIGQUIT)
    wait_for(lambda: "stops its agents" in lab.words())
    wait_for(lambda: time.time() - ticks.stat().st_mtime > 3)  # whose run it is by now, who knows
    start(server)
    seen = ticks.stat().st_size
    wait_for(lambda: ticks.stat().st_size > seen)
    hold.unlink()
    lab.wait_over(1)
    assert [words[1] for words in lab.spawned()] == ["plan", "do", "check"]
    assert lab.show(run_id)["claim_epoch"] == 1
    assert {row["status"] for row in lab.status()["workers"]} == {"alive"}


def test_a_crash_of_the_database_keeps_that_letters_are_to_be_sent(lab, server):
    """The worker lives on, so nobody else would ever look for what it had said before."""
    with psycopg.connect(server.get_uri(), autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        admin.execute("SELECT pg_reload_conf()")
    site = FleetSite(lab.env["TREADLE_STORE"], "p", None)
    with site.store("p") as store:
        row = take(store, queued(store), "worker:w")
        store.release(row.run_id, row.claim_epoch, "mail")
        crash(server)
    with site.store("p") as store:
        assert store.run(row.run_id).owner == "mail"


def test_a_crash_of_the_database_loses_no_letter_lane_or_question(tasked, server):
    """What the last worker had said of its run's end is gone, and so is the worker."""
    run_id = tasked.run_fleet("B-1")
    assert tasked.worker("--once").wait(180) == 0, tasked.words()
    with psycopg.connect(tasked.env["TREADLE_STORE"], autocommit=True) as admin:
        (schema,) = admin.execute("SELECT project FROM treadle_fleet.fleet_projects").fetchone()
        admin.execute(f"SET search_path = {schema}")
        admin.execute("UPDATE runs SET owner = 'worker:gone', ended_at = '2026-01-01T00:00:00Z'")
        admin.execute(
            "UPDATE tasks SET lane = 'in_progress', claim_id = %s, owner = 'human'", [run_id]
        )
    crash(server)
    tasked.treadle("doctor", "--repair", check=False)
    assert heard(tasked) == ["inform", "test_results"]
    shown = tasked.show(run_id)
    assert (shown["owner"], tasked.json("task", "show", "B-1")["lane"]) == (None, "done")
