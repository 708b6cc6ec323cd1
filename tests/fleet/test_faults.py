"""What a fleet must survive: killed, frozen and full workers, and a database that goes away."""

import json
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


def test_a_killed_agent_ends_no_run_unless_it_is_killed_every_time(held):
    held.env["TREADLE_FLEET_MAX_EPOCHS"] = "2"
    (run_id,) = held.queue()
    held.worker()
    os.kill(int(in_do(held, run_id)[0][2]), signal.SIGKILL)
    in_do(held, run_id, 2)
    held.hold.unlink()
    assert [row["status"] for row in held.wait_over(1)] == ["passed"]
    assert [step["role"] for step in held.show(run_id)["steps"]] == ["plan", "do", "check"]
    assert held.json("desk")["items"] == []
    held.make_agent('[ "$role" = do ] && kill -9 $$')
    (doomed,) = held.queue()
    held.wait_over(2)
    assert held.show(doomed)["reason_code"] == "gave_up"
    # The worker that had taken the step before it, and two more.
    assert len([it for it in held.spawned() if it[:2] == [doomed, "do"]]) == 3


def test_a_run_whose_agent_nobody_watches_any_more_is_taken_again(held):
    (run_id,) = held.queue()
    worker = held.worker()
    shim = parent(in_do(held, run_id)[0][2])
    keeper = parent(shim)
    assert parent(keeper) == worker.pid
    for pid in (keeper, shim):
        os.kill(pid, signal.SIGKILL)
    in_do(held, run_id, 2)
    held.hold.unlink()
    assert [row["status"] for row in held.wait_over(1)] == ["passed"]
    assert [step["role"] for step in held.show(run_id)["steps"]] == ["plan", "do", "check"]
    assert held.json("desk")["items"] == []


def test_a_stop_that_reaches_the_agents_too_ends_no_run(held):
    """As when a supervisor sends SIGTERM to all that belongs to a worker."""
    (run_id,) = held.queue()
    worker = held.worker()
    agent = int(in_do(held, run_id)[0][2])
    for pid in (worker.pid, agent):
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: held.types(run_id).count("run_queued") == 2)
    held.hold.unlink()  # it may have taken the run again before it saw its own signal
    assert worker.wait(180) == 0
    held.worker()
    assert [row["status"] for row in held.wait_over(1)] == ["passed"]
    assert held.json("desk")["items"] == []


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_killed_setup_or_git_ends_no_run(shared):
    """The setup, and git where it takes over what the agent has changed (twice) and packs it."""
    killed = [shared.folder / f"killed-{number}" for number in range(4)]
    setup, first, again, pack = (f"mkdir {path} 2>/dev/null && kill -9 $$" for path in killed)
    program, real = shared.folder / "bin" / "git", shutil.which("git")
    program.parent.mkdir()
    words = f'*" update-index "*) {first}; {again} ;; *" pack-objects "*) {pack} ;;'
    program.write_text(f'#!/bin/sh\ncase " $* " in {words} esac; exec {real} "$@"\n')
    program.chmod(0o755)
    shared.configure(more=f"[workspace]\nsetup = {json.dumps(['sh', '-c', f'{setup}; true'])}")
    shared.make_agent('[ "$role" = do ] && echo x > "$OLDPWD/new.txt"')
    (run_id,) = shared.queue()
    shared.env["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    shared.worker()
    assert [row["status"] for row in shared.wait_over(1)] == ["passed"]
    assert all(path.exists() for path in killed)
    assert [step["role"] for step in shared.show(run_id)["steps"]] == ["plan", "do", "check"]
    assert shared.json("desk")["items"] == []


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
