"""Runs that workers drive: queued by one command, done by another, on one machine."""


import pytest

QUICK = {
    "TREADLE_FLEET_POLLING": "0.05",
    "TREADLE_FLEET_BEAT": "0.3",
    "TREADLE_FLEET_DEAD_AFTER": "2",
}


@pytest.fixture
def fleet(project):
    project.good_agents()
    return project


def worker(project, *args, env=None):
    return project.treadle("worker", "--idle-exit", "20", *args, env={**QUICK, **(env or {})})


def test_a_worker_drives_a_queued_run_and_pushes_its_branch(fleet):
    queued = fleet.run_json("--fleet")
    assert (queued["status"], queued["reason_code"]) == ("stopped", "queued")
    done = worker(fleet, "--once")
    assert done.code == 0, done.err
    shown = fleet.show(queued["run_id"])
    assert (shown["status"], shown["verdict"], len(shown["steps"])) == ("passed", "PASS", 7), (
        done.err
    )
    assert fleet.git("rev-parse", queued["branch"]).strip() == shown["head_commit"]
    assert all(step["archive_sha256"] for step in shown["steps"])
