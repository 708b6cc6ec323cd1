"""What `fleet status` calls stuck."""

import psycopg
import pytest

from tests.fleet.test_faults import in_do
from tests.fleet.test_leader import LONG_AGO, RUN, queued, take
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
    take(store, row, "worker:w")


@pytest.mark.parametrize(("run_id", "stuck"), [(RUN, []), ("x", [("w", "no_job")])])
def test_a_run_of_a_living_worker_is_stuck_if_no_job_stands_for_it(site, store, run_id, stuck):
    fleet.add_job(store, f"p/{run_id}/0", "p", 0, LONG_AGO)
    assert [(it.worker, it.reason) for it in status(site).stuck] == stuck


def test_a_run_that_was_taken_while_the_queue_was_asked_is_not_stuck(site, store, monkeypatch):
    def meanwhile(opened):
        claim(store, store.run(RUN))
        return []

    monkeypatch.setattr(fleet, "waiting_jobs", meanwhile)
    assert status(site).stuck == []


def test_a_run_of_a_lost_worker_is_stuck_whatever_the_queue_says(site, store):
    fleet.add_job(store, f"p/{RUN}/0", "p", 0, LONG_AGO)
    fleet.bury(store, "w", "2100-01-01T00:00:00.000000Z")
    assert [(it.worker, it.reason) for it in status(site).stuck] == [("w", "worker_gone")]


@pytest.mark.real
def test_the_command_asks_the_queue(held):
    held.env["TREADLE_FLEET_DEAD_AFTER"] = "600"
    (run_id,) = held.queue()
    held.worker()
    in_do(held, run_id)
    assert held.status()["stuck"] == []
    with psycopg.connect(held.env["TREADLE_STORE"], autocommit=True) as admin:
        admin.execute("DELETE FROM treadle_fleet.fleet_jobs")
    assert [(it["run_id"], it["reason"]) for it in held.status()["stuck"]] == [(run_id, "no_job")]


@pytest.mark.real
def test_a_project_that_is_removed_stays_away(shared):
    (run_id,) = shared.queue()
    project = shared.status()["repositories"][0]["repository"]
    refused = shared.treadle("fleet", "remove", project, check=False)
    assert refused == ""
    shared.treadle("stop", run_id)
    shared.treadle("fleet", "remove", project)
    with psycopg.connect(shared.env["TREADLE_STORE"], autocommit=True) as admin:
        admin.execute(f"DROP SCHEMA {project} CASCADE")
        admin.execute("INSERT INTO treadle_fleet.fleet_projects VALUES ('dropped', '/r', 'x')")
        assert [it["repository"] for it in shared.status()["repositories"]] == ["dropped"]
        for words in (("check",), ("cancel", "--where", "queued")):
            shared.treadle("fleet", *words, check=False)
        assert shared.worker("--idle-exit", "3").wait(180) == 0, shared.words()
        found = admin.execute("SELECT nspname FROM pg_namespace").fetchall()
    assert not {(project,), ("dropped",)} & set(found)
    assert "no project" in shared.treadle("fleet", "remove", project, "--json", check=False)
