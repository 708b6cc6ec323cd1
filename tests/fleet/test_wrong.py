"""What operators get wrong: nobody is robbed, nothing is lost, and it is said what it is."""

import re
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.fleet.lab import fill, small_disk, wait_for
from tests.fleet.test_faults import in_do

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def test_two_fleets_with_keys_of_their_own_share_a_database(shared):
    """Each worker leaves the other fleet's runs as they are, and says whose they are."""
    (ours,) = shared.queue()
    name = shared.status()["key"]["name"]
    shared.env["TREADLE_FLEET_KEY_FILE"] = str(shared.folder / "other.key")
    shared.treadle("fleet", "key", cwd=shared.folder)
    (theirs,) = shared.queue()
    shared.worker("--slots", "1", name="theirs")
    assert [it["run_id"] for it in shared.wait_over(1)] == [theirs]
    left = f"{ours} is left, as all like it, to workers that have key {name}"
    wait_for(lambda: left in shared.words())
    shown = shared.show(ours)
    assert (shown["reason_code"], shown["claim_epoch"]) == ("queued", 0)
    assert shared.types(ours) == ["run_queued"]
    shared.env["TREADLE_FLEET_KEY_FILE"] = str(shared.key)
    shared.worker("--slots", "1", name="ours")
    assert {it["run_id"]: it["status"] for it in shared.wait_over(2)}[ours] == "passed"
    assert shared.json("desk")["items"] == []


def test_workers_with_other_dead_periods_judge_each_by_its_own(held):
    """A leader that is quick to judge buries nobody who beats rarely, and still finds the dead."""
    (run_id,) = held.queue()
    held.env |= {"TREADLE_FLEET_BEAT": "6", "TREADLE_FLEET_DEAD_AFTER": "15"}
    slow = held.worker(name="slow")
    in_do(held, run_id)
    held.env |= {"TREADLE_FLEET_BEAT": "0.3", "TREADLE_FLEET_DEAD_AFTER": "4"}
    victim = held.worker(name="victim")
    quick = held.worker(name="quick")
    names = wait_for(lambda: by_pid(held, slow, victim, quick))
    lead(held.env["TREADLE_STORE"], names[quick.pid])
    wait_for(lambda: held.status()["leader"] == names[quick.pid])
    victim.kill()
    wait_for(lambda: state(held, names[victim.pid]) == "dead")
    wait_for(lambda: silence(held, names[slow.pid]) > 4.5)
    assert state(held, names[slow.pid]) == "alive"
    slow.send_signal(signal.SIGSTOP)
    wait_for(lambda: state(held, names[slow.pid]) == "dead")
    slow.send_signal(signal.SIGCONT)
    assert slow.wait(180) == 75
    held.hold.unlink()
    assert [it["status"] for it in held.wait_over(1)] == ["passed"]
    assert held.show(run_id)["claim_epoch"] == 2


def by_pid(lab, *workers):
    found = {it["pid"]: it["worker_id"] for it in lab.status()["workers"]}
    return found if all(it.pid in found for it in workers) else None


def state(lab, name):
    return {it["worker_id"]: it["status"] for it in lab.status()["workers"]}[name]


def silence(lab, name):
    """Return for how long a worker has not beaten, by the database's clock."""
    sql = (
        "SELECT extract(epoch FROM now() - beat_at::timestamptz) FROM treadle_fleet.workers"
        " WHERE worker_id = %s"
    )
    with psycopg.connect(lab.env["TREADLE_STORE"]) as admin:
        return float(admin.execute(sql, [name]).fetchone()[0])


def lead(url, name):
    """Let a worker lead, as when the one that led has gone."""
    sql = "UPDATE treadle_fleet.fleet_leader SET worker_id = %s, until = '2126-01-01T00:00:00Z'"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql, [name])


def test_a_project_that_is_renamed_finds_its_runs_under_the_schema_it_had(shared):
    """The folder's name was the schema's. Workers go on; the fleet shows where the runs are."""
    done, waits = shared.queue(2)
    shared.worker("--once", "--slots", "1")
    shared.wait_over(1)
    shared.root = shared.root.rename(shared.root.with_name("renamed"))
    shared.treadle("trust")
    assert shared.runs() == []
    (load,) = shared.status()["repositories"]
    assert (load["repository"], load["queued"]) == ("treadle_project", 1)
    shared.env["TREADLE_STORE_SCHEMA"] = load["repository"]
    shared.worker("--once", "--slots", "1")
    assert {it["run_id"]: it["status"] for it in shared.wait_over(2)} == dict.fromkeys(
        (done, waits), "passed"
    )


def test_a_repository_that_refuses_later_is_one_item_for_all_runs_and_costs_no_work(held):
    held.env["TREADLE_FLEET_PER_REPOSITORY"] = "2"
    held.make_agent(
        f'[ "$role" = do ] && echo x > "$OLDPWD/new.txt"\n'
        f'while [ "$role" = do ] && [ -e {held.hold} ]; do sleep 0.1; done'
    )
    runs = held.queue(2)
    held.worker("--slots", "2")
    for run_id in runs:
        in_do(held, run_id)
    hook = held.folder / "origin.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho no branches today; exit 1\n")
    hook.chmod(0o755)
    held.hold.unlink()
    wait_for(lambda: {held.show(it)["status"] for it in runs} == {"stopped"})
    for shown in map(held.show, runs):
        assert (shown["reason_code"], len(shown["steps"])) == ("push_refused", 2)
    (item,) = held.json("desk")["items"]
    assert "no branches today" in item["summary"]
    assert "treadle fleet resume --where push_refused" in item["fix"]
    hook.unlink()
    resumed = held.json("fleet", "resume", "--where", "push_refused")["runs"]
    assert [it["problem"] for it in resumed] == [None, None]
    assert {it["status"] for it in held.wait_over(2)} == {"passed"}
    assert sorted(words[1] for words in held.spawned()) == sorted(["plan", "do", "check"] * 2)
    for run_id in runs:
        assert held.refs()[f"refs/heads/treadle/{run_id}"] == held.show(run_id)["head_commit"]
    assert held.json("desk")["items"] == []


def test_jobs_that_somebody_deleted_are_queued_again(held):
    """Those that wait, and the one that is being driven; nothing is done twice."""
    held.env["TREADLE_FLEET_DEAD_AFTER"] = "2"
    runs = held.queue(3)
    held.worker("--slots", "1")
    in_do(held, runs[0])
    with psycopg.connect(held.env["TREADLE_STORE"], autocommit=True) as admin:
        admin.execute("TRUNCATE treadle_fleet.fleet_jobs")
    held.hold.unlink()
    assert {it["status"] for it in held.wait_over(3)} == {"passed"}
    assert sorted(words[1] for words in held.spawned()) == sorted(["plan", "do", "check"] * 3)


def test_a_drain_that_does_not_end_is_ended_by_a_second_signal(held):
    """Its agent goes with it, and its run goes on elsewhere."""
    (run_id,) = held.queue()
    worker = held.worker()
    (_, _, agent, _) = in_do(held, run_id)[0]
    name = wait_for(lambda: held.status()["workers"])[0]["worker_id"]
    held.treadle("fleet", "drain", name)
    wait_for(lambda: state(held, name) == "draining")
    held.worker()
    worker.terminate()
    wait_for(lambda: is_signalled(worker))
    worker.terminate()
    assert worker.wait(180) == -signal.SIGTERM
    wait_for(lambda: not is_there(agent))
    in_do(held, run_id, 2)
    held.hold.unlink()
    assert [it["status"] for it in held.wait_over(1)] == ["passed"]


def is_signalled(process):
    """Tell whether a worker has taken note of SIGTERM: it does not catch the next one."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(re.search(r"SigCgt:\s*(\w+)", text)[1], 16)
    return not caught & 1 << (signal.SIGTERM - 1)


def is_there(pid):
    return Path(f"/proc/{pid}").exists()


@pytest.fixture
def full(shared):
    """The cache of a worker's machine, on a disk of 4 MB."""
    found = small_disk(shared.folder / "hosts" / "full" / "cache", 4)
    if found is None:
        pytest.skip("NOT TESTED: only root may mount a small disk, so no worker met a full one")
    yield found
    shared.close()
    subprocess.run(["umount", "-l", found], check=True)


def test_a_worker_whose_disk_is_full_leaves_runs_to_others_until_there_is_room(shared, full):
    shared.env |= {"TREADLE_FLEET_PER_REPOSITORY": "4", "TREADLE_FLEET_PATIENCE": "3"}
    ballast = fill(full)
    runs = shared.queue(4)
    worker = shared.worker("--slots", "2", name="full")
    (row,) = wait_for(lambda: [it for it in shared.status()["workers"] if it["trouble"]])
    assert "No space left on device" in row["trouble"]
    assert "takes no runs for" in (shared.folder / "hosts/full/worker.log").read_text()
    assert "quarantined" in shared.treadle("fleet", "status")
    good = shared.worker("--slots", "2", name="good")
    assert {it["status"] for it in shared.wait_over(4)} == {"passed"}
    assert {it["run_id"] for it in shared.runs()} == set(runs)
    assert shared.json("desk")["items"] == []
    good.terminate()
    good.wait(180)
    ballast.unlink()
    (last,) = shared.queue()
    shared.wait_over(5)
    assert f"by {row['worker_id']}" in str(shared.events(last))
    assert worker.poll() is None
    wait_for(lambda: not any(it["trouble"] for it in shared.status()["workers"]))


def test_a_disk_that_is_full_when_an_agent_has_finished_fails_no_run(held, full):
    held.env["TREADLE_FLEET_PATIENCE"] = "3"
    (run_id,) = held.queue()
    held.worker(name="full")
    in_do(held, run_id)
    ballast = fill(full)
    held.hold.unlink()
    wait_for(lambda: "goes back to the queue" in held.words())
    ballast.unlink()
    assert [it["status"] for it in held.wait_over(1)] == ["passed"]
    assert held.types(run_id).count("step_committed") == 3
    assert held.json("desk")["items"] == []


# The answer finds no room; when the agent ends, there is some again.
SPOILT = """[ "$role" = do ] && [ -e {hold} ] && {{
while [ -e {hold} ]; do sleep 0.1; done
echo '{{"version":1,"status":"ok","summary":"done"}}'; touch {said}
while [ ! -e {room} ]; do sleep 0.1; done; exit; }}"""


def test_an_answer_that_a_full_disk_spoilt_fails_no_run(held, full):
    said, room = held.folder / "said", held.folder / "room"
    held.make_agent(SPOILT.format(hold=held.hold, said=said, room=room))
    (run_id,) = held.queue()
    held.worker(name="full")
    in_do(held, run_id)
    ballast = fill(full)
    held.hold.unlink()
    wait_for(said.exists)
    ballast.unlink()
    room.touch()
    assert [it["status"] for it in held.wait_over(1)] == ["passed"]
    assert [it["role"] for it in held.show(run_id)["steps"]] == ["plan", "do", "check"]
    assert "goes back to the queue" in held.words()
    assert held.json("desk")["items"] == []
