"""Workers that share a PostgreSQL database and nothing else."""

import pytest

pytestmark = pytest.mark.real


def test_a_worker_without_a_project_drives_a_run(shared):
    (run_id,) = shared.queue()
    worker = shared.worker("--once", "--idle-exit", "30")
    assert worker.wait(60) == 0, shared.words()
    shown = shared.show(run_id)
    assert (shown["status"], len(shown["steps"])) == ("passed", 3), shared.words()
