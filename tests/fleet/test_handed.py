"""Between the queue and the claim: a worker that stands still there, dies, or loses its line."""

import contextlib

import psycopg
import pytest

from tests.fleet.lab import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

LATER = "2126-01-01T00:00:00.000000Z"
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@contextlib.contextmanager
def between(lab):
    """Keep a worker that has taken a job from reading its run; yield a line that may write it."""
    with psycopg.connect(lab.env["TREADLE_STORE"]) as line:
        line.execute("SET search_path TO treadle_fleet")
        line.execute("LOCK TABLE treadle_project.runs")
        lab.worker("--slots", "1")
        wait_for(lambda: line.execute("SELECT 1 FROM fleet_jobs WHERE state = 'held'").fetchone())
        yield line


def test_a_worker_that_lost_its_job_before_the_claim_robs_nobody(shared):
    shared.env["TREADLE_FLEET_PER_REPOSITORY"] = "2"
    first, second = shared.queue(2)
    with between(shared) as line:
        line.execute(
            "INSERT INTO workers (worker_id, host, pid, slots, busy, status, started_at, beat_at)"
            f" VALUES ('other', 'h', 1, 1, 1, 'alive', '{LATER}', '{LATER}')"
        )
        line.execute("UPDATE fleet_jobs SET worker_id = 'other' WHERE state = 'held'")
        line.execute(
            "UPDATE treadle_project.runs SET status = 'running', owner = 'worker:other',"
            f" claim_epoch = 1 WHERE run_id = '{first}'"
        )
    assert [it["run_id"] for it in shared.wait_over(1)] == [second]
    shown = shared.show(first)
    assert (shown["owner"], shown["claim_epoch"]) == ("worker:other", 1)
    assert {words[0] for words in shared.spawned()} == {second}


def test_a_job_whose_worker_lost_its_line_is_handed_out_again_at_once(shared):
    """Nobody looks for runs without a job before ten minutes are over."""
    shared.env["TREADLE_FLEET_DEAD_AFTER"] = "600"
    shared.queue()
    with between(shared), psycopg.connect(shared.env["TREADLE_STORE"], autocommit=True) as admin:
        wait_for(lambda: admin.execute(CUT) and "lost for now" in shared.words())
    assert [it["status"] for it in shared.wait_over(1)] == ["passed"]
