"""What `fleet status` calls stuck."""

import psycopg
import pytest

from tests.fleet.test_faults import in_do
from tests.fleet.test_leader import LONG_AGO, RUN, queued
from treadle.engine.elsewhere import fleet_run
from treadle.fleet.site import LOCAL, FleetSite, status
from treadle.layout import Layout
from treadle.store import fleet
from treadle.store.fleet import WorkerRow
from treadle.store.store import Store


@pytest.fixture
def site(tmp_path):
    return FleetSite(None, LOCAL, Layout(tmp_path))


@pytest.fixture
def store(site):
    """A fleet with a worker `w` that drives a run."""
    with Store.open(site.layout) as opened:
        fleet.add_project(opened, "p", "/repo", LONG_AGO)
        now = opened.now().isoformat()
        fleet.register(opened, WorkerRow("w", "h", 1, 1, 0, "alive", now, now), LONG_AGO)
        claim(opened, queued(opened))
        yield opened


def claim(store, row):
    row = row._replace(claim_epoch=fleet.claim(store, row, "worker:w"))
    fleet_run.record(store, row, "run_claimed", "x", "running", reason_code=None)


@pytest.mark.parametrize(
    ("jobs", "stuck"), [({("p", RUN)}, []), (None, []), ({("p", "x")}, [("w", "no_job")])]
)
def test_a_run_of_a_living_worker_is_stuck_if_no_job_stands_for_it(site, store, jobs, stuck):
    assert [(it.worker, it.reason) for it in status(site, lambda: jobs).stuck] == stuck


def test_a_run_that_was_taken_while_the_queue_was_asked_is_not_stuck(site, store):
    def meanwhile():
        claim(store, store.run(RUN))
        return set()

    assert status(site, meanwhile).stuck == []


def test_a_run_of_a_lost_worker_is_stuck_whatever_the_queue_says(site, store):
    fleet.bury(store, "w", "2100-01-01T00:00:00.000000Z")
    found = status(site, lambda: {("p", RUN)}).stuck
    assert [(it.worker, it.reason) for it in found] == [("w", "worker_gone")]


@pytest.mark.real
def test_the_command_asks_the_queue(held):
    held.env["TREADLE_FLEET_DEAD_AFTER"] = "600"
    (run_id,) = held.queue()
    held.worker()
    in_do(held, run_id)
    assert held.status()["stuck"] == []
    with psycopg.connect(held.env["TREADLE_STORE"], autocommit=True) as admin:
        admin.execute("DELETE FROM dbos.workflow_status")
    assert [(it["run_id"], it["reason"]) for it in held.status()["stuck"]] == [(run_id, "no_job")]
