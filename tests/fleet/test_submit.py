"""Queueing a run is all or nothing, whoever is killed, cut off or refused on the way."""

import json
import subprocess
import sys

import psycopg
import pytest

from tests.builder import git
from tests.fleet.lab import wait_for
from tests.fleet.test_leader import queued, take
from tests.fleet.test_leader_shared import keeper, leads, site, store
from treadle.engine.elsewhere import fleet_run
from treadle.errors import StoreError
from treadle.fleet.queue import Job
from treadle.layout import Layout
from treadle.store import fleet
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import task
from treadle.tasks.task import criteria_from_flags

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

__all__ = ["keeper", "site", "store"]

# A push to the shared repository says that it came, and waits to be let go on.
WAITS = """#!/bin/sh
cat > /dev/null
echo came >> {folder}/came
while [ -e {folder}/hold ]; do sleep 0.05; done
"""


def add(lab, *names):
    for name in names:
        lab.treadle("task", "add", "Goal", "--id", name, "--ac", "It is fine")


def error(text):
    return json.loads(text).get("error", {}).get("code")


def lane(lab, task_id):
    return lab.json("task", "show", task_id)["lane"]


def test_of_two_who_submit_a_task_at_once_one_does_and_no_local_run_takes_it(shared):
    add(shared, "T-1")
    hook = shared.folder / "origin.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(WAITS.format(folder=shared.folder))
    hook.chmod(0o755)
    (shared.folder / "hold").touch()
    words = [sys.executable, "-m", "treadle", "run", "T-1", "--fleet", "--json"]
    both = [
        subprocess.Popen(words, cwd=shared.root, env=shared.env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    came = shared.folder / "came"
    wait_for(lambda: came.exists() and len(came.read_text().split()) == 2)
    (shared.folder / "hold").unlink()
    said = [process.communicate(timeout=180)[0] for process in both]
    assert sorted(map(str, map(error, said))) == ["None", "still_running"]
    (row,) = shared.runs()
    assert list(shared.refs()) == [f"refs/heads/treadle/{row['run_id']}"]
    assert error(shared.treadle("run", "T-1", "--json", check=False)) == "still_running"
    assert "took run" in shared.treadle("stop", row["run_id"])
    assert shared.json("task", "show", "T-1")["owner"] in (None, "human")
    assert shared.run_fleet("T-1") != row["run_id"]


def test_a_submitter_that_is_killed_leaves_the_task_queued_or_ready(shared):
    add(shared, "T-1", "T-2")
    shared.env["TREADLE_DIE_AT"] = "before_queued_row"
    shared.treadle("run", "T-1", "--fleet", check=False)
    shared.env["TREADLE_DIE_AT"] = "after_queued_row"
    shared.treadle("run", "T-2", "--fleet", check=False)
    del shared.env["TREADLE_DIE_AT"]
    assert (lane(shared, "T-1"), lane(shared, "T-2")) == ("planned", "in_progress")
    (row,) = shared.runs()
    assert row["task_id"] == "T-2"
    again = shared.run_fleet("T-1")
    shared.worker("--slots", "2")
    assert {it["run_id"] for it in shared.wait_over(2)} == {row["run_id"], again}


def test_a_run_is_let_go_and_queued_in_one_transaction(site, store):
    row = take(store, queued(store), "worker:gone")
    with psycopg.connect(site.url, autocommit=True) as admin:
        admin.execute("SET search_path = p")
        admin.execute("ALTER TABLE events ADD CHECK (type <> 'run_queued') NOT VALID")
        with pytest.raises(StoreError):
            fleet_run.requeue(store, row, "its worker lost it")
        assert store.run(row.run_id) == row
        admin.execute("ALTER TABLE events DROP CONSTRAINT events_type_check")
    assert fleet_run.requeue(store, row, "its worker lost it").owner is None


def test_the_leader_finds_runs_that_nobody_holds(site, store, keeper):
    """One was let go of and never queued; of another its living worker forgot that it ended."""
    row = take(store, queued(store), "worker:first")
    with psycopg.connect(site.url, autocommit=True) as admin:
        admin.execute("UPDATE p.runs SET owner = NULL")
    first = keeper("first")
    leads(site, "first")
    wait_for(lambda: Job("p", row.run_id, 2) in first._dispatcher.health().waiting)
    first._dispatcher.lose(Job("p", row.run_id, 2))
    running = take(store, store.run(row.run_id), "worker:first")
    done = {"reason_code": "gave_up", "reason": "x"}
    fleet_run.record(store, running._replace(status="failed"), "gave_up", "x", **done)
    assert [it.run_id for it in fleet.runs(store).ended] == [row.run_id]
    wait_for(lambda: Job("p", row.run_id, 4) in first._dispatcher.health().waiting)
    assert store.run(row.run_id).status == "failed"


def test_nothing_is_pushed_for_a_run_whose_base_the_repository_has(shared):
    """Its first change makes the branch, wherever a worker may have been lost."""
    git(shared.root, "push", "-q", "origin", "main")
    change = shared.folder / "change"
    steps = f'[ "$role" = do ] && [ -e {change} ] && echo "$TREADLE_RUN" > "$OLDPWD/done.txt"'
    shared.make_agent(steps)
    (still,) = shared.queue()
    assert set(shared.refs()) == {"HEAD", "refs/heads/main"}
    shared.worker("--once").wait(180)
    assert shared.show(still)["status"] == "passed"
    assert set(shared.refs()) == {"HEAD", "refs/heads/main"}
    change.touch()
    (changes,) = shared.queue()
    shared.env |= {"TREADLE_DIE_AT": "after_transaction:2", "TREADLE_FLEET_DEAD_AFTER": "2"}
    assert shared.worker().wait(180) == -9
    assert set(shared.refs()) == {"HEAD", "refs/heads/main"}
    del shared.env["TREADLE_DIE_AT"]
    shared.worker("--once").wait(180)
    shown = shared.show(changes)
    assert shown["status"] == "passed"
    assert shared.refs()[f"refs/heads/treadle/{changes}"] == shown["head_commit"]
    prune = ("runs", "prune", "--history", "--unlanded")
    assert "has not landed: done.txt would be lost" in shared.treadle(*prune, "--dry-run")
    pruned = shared.json(*prune)["runs"]
    assert set(pruned) == {still, changes}
    assert set(shared.refs()) == {"HEAD", "refs/heads/main"}


def test_many_tasks_are_queued_with_few_pushes(shared):
    hook = shared.folder / "origin.git" / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ncat > /dev/null\necho came >> {shared.folder}/came\n")
    hook.chmod(0o755)
    with Store.open(Layout(shared.root), shared.env) as store:
        for number in range(120):
            asked = TaskRow(f"T-{number:03}", "g", criteria=criteria_from_flags("g", ("fine",), ()))
            task.add(store, asked, store.now())
    queued_now = shared.json("run", "--fleet")["runs"]
    assert [it["task_id"] for it in queued_now] == [f"T-{number:03}" for number in range(120)]
    ids = [it["run_id"] for it in queued_now]
    assert ids == sorted(ids)
    assert {f"refs/heads/treadle/{it}" for it in ids} == set(shared.refs())
    assert len((shared.folder / "came").read_text().split()) == 2
