"""Runs go where their tools are: what a worker serves is its own decision."""

import psycopg
import pytest

from tests.fleet.lab import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

LEFT = "SELECT job FROM treadle_fleet.fleet_jobs WHERE state IN ('waiting', 'held')"


def test_a_run_waits_for_a_worker_that_serves_its_project_and_has_what_it_needs(shared):
    shared.configure(more='[fleet]\nneeds = ["gpu"]')
    (run_id,) = shared.queue()
    project = shared.status()["repositories"][0]["repository"]
    shared.worker(name="plain")
    shared.worker("--projects", "other", "--labels", "gpu", name="other")
    wait_for(lambda: len(shared.status()["workers"]) == 2)
    shared.worker(
        "--once", "--labels", "gpu", "--labels", "linux", "--projects", project, name="right"
    )
    assert [row["status"] for row in shared.wait_over(1)] == ["passed"]
    (claimed,) = [it for it in shared.events(run_id) if it["type"] == "run_claimed"]
    served = {row["worker_id"]: row["serves"] for row in shared.status()["workers"]}
    took = claimed["message"].removeprefix("by ").partition(",")[0]
    assert served[took] == f"projects {project}; labels gpu, linux"
    assert set(served.values()) == {None, "projects other; labels gpu", served[took]}
    assert shared.json("desk")["items"] == []


def test_nothing_is_left_in_the_queue_of_a_run_that_was_called_off(shared):
    """A scaler that counts jobs would keep workers for it, none of which may take it."""
    shared.configure(more='[fleet]\nneeds = ["gpu"]')
    (run_id,) = shared.queue()
    shared.worker(name="plain")
    wait_for(lambda: run_id in shared.words())
    shared.treadle("stop", run_id)
    with psycopg.connect(shared.env["TREADLE_STORE"], autocommit=True) as line:
        wait_for(lambda: line.execute(LEFT).fetchall() == [])


def test_runs_of_one_provider_wait_for_each_other_where_it_has_a_limit(shared):
    shared.env["TREADLE_FLEET_PER_REPOSITORY"] = "2"
    shared.make_agent("sleep 0.3")
    shared.floor += "[fleet.limits]\nexec = 1\n"
    runs = shared.queue(2)
    shared.worker("--slots", "2")
    shared.wait_over(2)
    order = [words[0] for words in shared.spawned()]
    assert order in ([*[one] * 3, *[other] * 3] for one, other in (runs, runs[::-1]))
