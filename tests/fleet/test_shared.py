"""Workers that share a PostgreSQL database and nothing else."""

import json

import psycopg
import pytest

pytestmark = pytest.mark.real


def test_a_worker_without_a_project_drives_a_run(shared):
    (run_id,) = shared.queue()
    worker = shared.worker("--once", "--idle-exit", "30")
    assert worker.wait(180) == 0, shared.words()
    shown = shared.show(run_id)
    assert (shown["status"], len(shown["steps"])) == ("passed", 3), shared.words()


def test_pruning_a_runs_history_removes_what_it_uploaded_also_what_no_row_names(shared):
    archives = shared.folder / "archives" / "runs"
    (run_id,) = shared.queue()
    assert shared.worker("--once").wait(180) == 0, shared.words()
    (archives / run_id / "003-check.e9.tar").write_text("of a worker that lost the run")
    (waiting,) = shared.queue()
    assert shared.json("runs", "prune")["archives"] == [f"runs/{run_id}/003-check.e9.tar"]
    assert shared.json("runs", "prune")["archives"] == []
    assert len(list((archives / run_id).iterdir())) == 4
    prune = ("runs", "prune", "--history", "--unlanded", "--json")
    hidden = archives.rename(shared.folder / "hidden")
    archives.parent.rmdir()
    archives.parent.touch()
    assert json.loads(shared.treadle(*prune))["runs"] == []
    archives.parent.unlink()
    archives.parent.mkdir()
    hidden.rename(archives)
    assert json.loads(shared.treadle(*prune))["runs"] == [run_id]
    assert [path.name for path in archives.iterdir()] == [waiting]
    assert [row["run_id"] for row in shared.runs()] == [waiting]
    branches = [name.rpartition("/")[2] for name in shared.refs()]
    assert (run_id in branches, waiting in branches) == (False, True)


def test_a_run_that_cannot_be_queued_leaves_nothing_behind(shared):
    shared.treadle("task", "add", "Goal", "--id", "T-9", "--ac", "It is fine")
    run_id = shared.run_fleet("T-9")
    again = json.loads(shared.treadle("run", "T-9", "--fleet", "--json", check=False))["error"]
    assert (again["code"], again["fix"][1]) == ("still_running", f"treadle stop {run_id}")
    shared.env["TREADLE_ARTIFACTS"] = "file:///proc/nowhere"
    shared.treadle("run", "--goal", "g", "--ac", "a", "--fleet", check=False)
    assert [row["run_id"] for row in shared.runs()] == [run_id]
    assert list(shared.refs()) == [f"refs/heads/treadle/{run_id}"]
    assert [path.name for path in (shared.folder / "archives" / "runs").iterdir()] == [run_id]


def test_whoever_asks_first_is_told_what_workers_did_and_changed(shared):
    """Nobody has shown or landed the run before, so nothing of it is on this machine."""
    shared.make_agent('if [ "$role" = do ]; then echo done > "$OLDPWD/done.txt"; fi')
    (asked, reported) = shared.queue(2)
    shared.worker()
    shared.wait_over(2)
    assert "1/1 criteria" in shared.treadle("why", asked)
    report = shared.treadle("report", reported)
    assert "1/1 criteria" in report
    assert "done.txt | 1 +" in report


def test_runs_that_an_older_database_has_forgotten_are_rebuilt_from_their_archives(shared):
    url, schema = shared.env["TREADLE_STORE"], "treadle_project"
    shared.make_agent('if [ "$role" = do ]; then echo done > "$OLDPWD/done.txt"; fi')
    task = shared.json("task", "add", "Look around", "--ac", "It is fine")["task_id"]
    run_id = shared.run_fleet(task)
    shared.worker("--once").wait()
    before, head = shared.spawned(), shared.show(run_id)["head_commit"]
    lane = shared.json("task", "show", task)["lane"]
    with psycopg.connect(url, autocommit=True) as admin:  # as a dump from before all this has it
        for name in (schema, "treadle_fleet"):
            admin.execute(f"DROP SCHEMA {name} CASCADE")
    assert shared.runs() == []
    assert [it["run_id"] for it in shared.json("fleet", "rebuild")["runs"]] == [run_id]
    assert shared.json("fleet", "rebuild")["runs"] == []
    assert [it["repository"] for it in shared.status()["repositories"]] == [schema]
    shared.worker("--once").wait()
    assert shared.spawned() == before  # no agent worked twice
    found = shared.show(run_id)
    assert (found["status"], found["head_commit"], found["task_id"]) == ("passed", head, task)
    assert shared.json("task", "show", task)["lane"] == lane
