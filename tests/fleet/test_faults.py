"""What a fleet must survive: killed, frozen and full workers, and a database that goes away."""

import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fleet.lab import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def in_do(lab, run_id, count=1):
    return wait_for(lambda: [s for s in lab.spawned() if s[:2] == [run_id, "do"]][count - 1 :])


def owner(lab, run_id):
    return lab.show(run_id)["owner"]


def test_a_killed_workers_run_goes_on_elsewhere_and_no_step_is_lost(held):
    (run_id,) = held.queue()
    first = held.worker()
    in_do(held, run_id)
    second = held.worker()
    wait_for(lambda: len(held.status()["workers"]) == 2)
    time.sleep(1)
    first.kill()
    killed_at = time.time()
    (_, _, _, began) = in_do(held, run_id, 2)[0]
    held.hold.unlink()
    held.wait_over(1)
    shown = held.show(run_id)
    assert [step["role"] for step in shown["steps"]] == ["plan", "do", "check"]
    assert shown["claim_epoch"] == 2
    assert shown["status"] == "passed"
    assert second.poll() is None
    print(f"recovered {float(began) - killed_at:.1f} s after the kill")


def test_a_frozen_worker_that_wakes_commits_nothing_and_leaves(held):
    (run_id,) = held.queue()
    frozen = held.worker()
    in_do(held, run_id)
    held.worker()
    os.kill(frozen.pid, signal.SIGSTOP)
    in_do(held, run_id, 2)
    held.hold.unlink()
    held.wait_over(1)
    os.kill(frozen.pid, signal.SIGCONT)
    assert frozen.wait(180) == 75
    shown = held.show(run_id)
    assert [step["step_index"] for step in shown["steps"]] == [1, 2, 3]
    assert {step["archive"].partition(".e")[2] for step in shown["steps"][1:]} == {"2.tar"}
    events = [event["seq"] for event in held.events(run_id)]
    assert events == list(range(1, len(events) + 1))


def test_a_draining_worker_keeps_beating_longer_than_the_deadline_and_gives_its_run_back(held):
    (run_id,) = held.queue()
    first = held.worker()
    in_do(held, run_id)
    held.worker()
    first.terminate()
    wait_for(lambda: any(w["status"] == "draining" for w in held.status()["workers"]))
    time.sleep(6)
    assert first.poll() is None
    held.hold.unlink()
    assert first.wait(180) == 0
    held.wait_over(1)
    assert len([s for s in held.spawned() if s[1] == "do"]) == 1
    assert held.types(run_id).count("run_queued") == 2


def test_a_run_can_be_called_off_while_it_waits_works_or_its_worker_drains(held):
    waiting, working = held.queue(2)
    held.treadle("stop", waiting)
    assert held.show(waiting)["reason_code"] == "interrupted"
    worker = held.worker()
    in_do(held, working)
    worker.terminate()
    held.treadle("stop", working)
    assert worker.wait(180) == 0
    shown = held.show(working)
    assert (shown["status"], shown["reason_code"]) == ("stopped", "interrupted")
    assert not [s for s in held.spawned() if s[0] == waiting]


def test_a_run_that_ends_every_worker_is_given_up_with_a_question(shared):
    shared.env["TREADLE_FLEET_MAX_EPOCHS"] = "1"
    shared.env["TREADLE_FLEET_DEAD_AFTER"] = "2"
    shared.make_agent(f'[ "$role" = do ] && kill -9 $(cat {shared.folder}/victim) && sleep 9')
    (run_id,) = shared.queue()
    for _ in range(2):
        victim = shared.worker()
        (shared.folder / "victim").write_text(str(victim.pid))
        victim.wait(180)
    shared.worker()
    (row,) = shared.wait_over(1)
    assert (row["status"], shared.show(run_id)["reason_code"]) == ("failed", "gave_up")
    assert "gave_up" in shared.types(run_id)
    assert run_id in shared.treadle("desk", "--json")


def test_nothing_on_the_projects_machine_takes_a_run_from_the_fleet(held):
    """Two look at it at once, folders of it lie around, and a local run is killed meanwhile."""
    steps = held.root / ".treadle" / "runs"
    run_id, waits = held.queue(2)
    worker = held.worker()
    in_do(held, run_id)
    with ThreadPoolExecutor(4) as pool:
        shown = list(pool.map(held.show, [run_id] * 4))
    assert {len(it["steps"]) for it in shown} == {1}
    assert os.listdir(steps / run_id / "steps") == ["001-plan"]
    for left in (steps / run_id / "steps", steps / waits / "steps"):
        shutil.copytree(steps / run_id / "steps" / "001-plan", left / "002-do")
        (left / "003-check.tmp-0").mkdir()
        os.utime(left / "003-check.tmp-0", (0, 0))
    shutil.copy(steps / run_id / "run.json", steps / waits)
    held.env["TREADLE_DIE_AT"] = "after_stage"
    held.treadle("run", "--goal", "Look", "--ac", "Fine", check=False)
    del held.env["TREADLE_DIE_AT"]
    held.treadle("process")
    assert (held.show(run_id)["status"], held.show(waits)["reason_code"]) == ("running", "queued")
    assert not list(steps.glob("*/steps/003-check.tmp-0"))
    for left in (run_id, waits):
        shutil.rmtree(steps / left / "steps" / "002-do")
    held.hold.unlink()
    held.wait_over(2)
    assert [held.show(it)["claim_epoch"] for it in (run_id, waits)] == [1, 1]
    assert worker.poll() is None
