"""What an operator sees of a worker: its numbers, its log, and why it does not start."""

import json
import re
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.builder import git
from tests.fleet.lab import wait_for
from tests.fleet.test_faults import in_do
from treadle.errors import GitError
from treadle.fleet import check


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.real
@pytest.mark.timeout(600)
def test_a_run_that_waits_for_a_worker_is_shown_as_queued(shared):
    shared.treadle("task", "add", "Goal", "--id", "T-1", "--ac", "It is fine")
    run_id = shared.run_fleet("T-1")
    assert re.search(r"\bqueued\b.*Goal", shared.treadle("runs", "list"))
    assert f"{run_id} (queued," in shared.treadle("runs", "show", run_id)
    assert f"run {run_id} waits for a worker" in shared.treadle("why", run_id)
    (entry,) = shared.json("status")["queued"]
    assert (entry["kind"], entry["reason"]) == ("run", "Goal: waits for a worker")
    assert entry["next"] == f"treadle log -f {run_id}"
    assert re.search(r"(?m)^queued\n  run .*Goal: waits for a worker$", shared.treadle("status"))
    assert "out of the queue" in shared.treadle("stop", run_id)
    assert re.search(r"\bstopped\b.*Goal", shared.treadle("runs", "list"))


@pytest.mark.real
@pytest.mark.timeout(600)
def test_a_workers_numbers_and_log_tell_what_it_does(held):
    port = free_port()
    runs = held.queue(2)
    held.worker("--metrics", str(port), "--log", "json", "--slots", "1")
    in_do(held, runs[0])

    def numbers():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in (it.rsplit(" ", 1) for it in lines)}

    seen = numbers()
    project = held.status()["repositories"][0]["repository"]
    assert 0 < seen["treadle_worker_connections"] <= 8
    assert seen["treadle_worker_busy"] == seen["treadle_fleet_up"] == 1
    assert seen["treadle_worker_claims_total"] == seen["treadle_worker_steps_total"] == 1
    assert seen[f'treadle_fleet_queued{{repository="{project}"}}'] == 1
    assert seen[f'treadle_fleet_oldest_queued_seconds{{repository="{project}"}}'] > 0
    held.hold.unlink()
    held.wait_over(2)
    wait_for(lambda: numbers()["treadle_worker_runs_total"] == 2)
    assert numbers()["treadle_worker_steps_total"] == 6
    told = [json.loads(line) for line in held.words().splitlines()]
    steps = [it for it in told if it["kind"] == "committed"]
    assert {(it["run_id"], it["slot"]) for it in steps} == {(run_id, 1) for run_id in runs}
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z$", it["time"]) for it in told)
    in_use = held.worker("--metrics", str(port), "--idle-exit", "0", name="second")
    assert in_use.wait(180) == 2
    assert f"--metrics {port}" in held.words()


@pytest.mark.real
@pytest.mark.timeout(600)
def test_a_check_from_a_workers_place_says_what_is_missing(shared):
    shared.queue()
    shared.env["TREADLE_ARTIFACTS"] = f"file://{shared.folder}/archives"
    shared.env["TREADLE_SANDBOX"] = "off"

    def checked():
        said = shared.treadle("fleet", "check", "--json", cwd=shared.folder, check=False)
        return {it["name"].partition(" ")[0]: it["ok"] for it in json.loads(said)["checks"]}

    everything = ("database", "clock", "key", "artifacts", "sandbox", "store", "repository")
    assert checked() == dict.fromkeys(everything, True)
    (shared.folder / "origin.git").rename(shared.folder / "away.git")
    shared.env["TREADLE_ARTIFACTS"] = "file:///proc/nowhere"
    shared.env["TREADLE_FLEET_KEY_FILE"] = f"{shared.folder}/nothing"
    missing = ("key", "artifacts", "repository")
    assert checked() == dict.fromkeys(everything, True) | dict.fromkeys(missing, False)
    assert "NOT  repository of" in shared.treadle("fleet", "check", check=False)


@pytest.mark.real
def test_a_check_finds_a_repository_that_can_only_be_read(repo, tmp_path):
    """As a server has it that asks for more rights to push than to fetch."""
    if not Path(git(repo, "--exec-path").strip(), "git-daemon").exists():
        pytest.skip("git daemon is not installed: apt-get install git")
    git(repo, "clone", "-q", "--bare", str(repo), str(tmp_path / "origin.git"))
    assert "written" in check._repository(str(tmp_path / "origin.git"))
    port = free_port()
    words = [f"--base-path={tmp_path}", "--export-all", "--listen=127.0.0.1", f"--port={port}"]
    url = f"git://127.0.0.1:{port}/origin.git"
    with subprocess.Popen(["git", "daemon", *words], stderr=subprocess.DEVNULL) as daemon:
        try:
            wait_for(lambda: subprocess.run(["git", "ls-remote", url]).returncode == 0)
            with pytest.raises(GitError, match="access denied"):
                check._repository(url)
        finally:
            daemon.terminate()
