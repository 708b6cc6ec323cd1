"""What a starting command finds in `runs/` and the store, and whom it leaves alone."""

import json
import os
import shutil
import sqlite3
import time

import pytest

from tests.acceptance.messages import routine, spec
from tests.builder import wait_for
from treadle.layout import Layout
from treadle.proc import identity

OLD = time.time() - 3600


def _sql(project, statement, *values):
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as store:
        store.execute("PRAGMA foreign_keys = ON")
        return store.execute(statement, values).fetchall()


def _keep_store(project):
    """Copy the store as it is now, write-ahead log and all."""
    kept = project.folder / "kept.db"
    with (
        sqlite3.connect(project.root / ".treadle" / "treadle.db") as now,
        sqlite3.connect(kept) as copy,
    ):
        now.backup(copy)
    return kept


def _put_back(project, kept):
    for path in (project.root / ".treadle").glob("treadle.db*"):
        path.unlink()
    shutil.copy(kept, project.root / ".treadle" / "treadle.db")


def _start(project):
    """Let a command take the lock and leave it in good order."""
    started = project.treadle("runs", "prune")
    assert started.code == 0, started.err
    return started


def _leave_signature(project):
    """Leave the lock as a killed process would."""
    lock = Layout(project.root).run_lock
    lock.parent.mkdir(exist_ok=True)
    dead = identity.current()._replace(pid=2**22 - 1)
    lock.write_text(json.dumps({"pid": dead.pid, "host": "h", "identity": dead.encode()}))


@pytest.mark.parametrize(
    "owner", ["worker:far-1", identity.current().encode()], ids=["worker", "process"]
)
def test_a_run_of_a_living_owner_is_left_alone(project, owner):
    project.good_agents()
    run_id = project.run_json("--budget", "max_iterations=1")["run_id"]
    _sql(project, "UPDATE runs SET status = 'running', owner = ?, claim_epoch = 5", owner)
    (project.run_dir(run_id) / "steps" / "004-act.tmp-0a1b2c3d").mkdir()
    _leave_signature(project)
    code = project.treadle("runs", "prune").code
    assert code == (0 if owner.startswith("worker:") else 75)
    row = project.only_run()
    assert (row["status"], row["owner"], row["claim_epoch"]) == ("running", owner, 5)
    assert (project.run_dir(run_id) / "steps" / "004-act.tmp-0a1b2c3d").exists()


def test_an_error_under_the_lock_is_not_a_kill(project):
    project.good_agents()
    project.run_json()
    assert project.treadle("land", "no-such-run").code == 1
    assert project.treadle("run", "--resume", project.only_run()["run_id"]).code == 3
    assert os.path.getsize(Layout(project.root).run_lock) == 0


def test_an_older_store_put_back_learns_the_steps_it_missed(project):
    project.good_agents()
    project.agent("do", 'pathlib.Path(os.environ["HOME"]); ok()')
    first = project.run_json("--budget", "max_iterations=1")["run_id"]
    kept = _keep_store(project)
    again = project.treadle("run", "--resume", first, "--budget", "max_iterations=3", "--json")
    assert again.json["status"] == "passed"
    assert project.treadle("land", first).code == 0
    other = project.run_json()["run_id"]
    steps, landed = project.show(first)["steps"], project.show(first)["landed"]
    _put_back(project, kept)
    _start(project)
    shown = project.show(first)
    assert (shown["status"], shown["steps"], shown["landed"]) == ("passed", steps, landed)
    assert project.show(other)["status"] == "passed"
    missed = [e["data"]["step"] for e in project.events(first) if e["type"] == "reconciled_step"]
    assert missed == ["004-act", "005-plan", "006-do", "007-check"]
    seqs = [event["seq"] for event in project.events(first)]
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_deleted_row_comes_back_with_the_next_command(project):
    project.good_agents()
    run_id = project.run_json()["run_id"]
    _sql(project, "DELETE FROM runs")
    _start(project)
    assert project.show(run_id)["status"] == "passed"


def test_a_deleted_step_row_comes_back_with_the_next_command(project):
    project.good_agents()
    run_id = project.run_json()["run_id"]
    before = project.show(run_id)["steps"]
    _sql(project, "DELETE FROM steps WHERE step_index = 3")
    _start(project)
    assert project.show(run_id)["steps"] == before
    assert project.event(run_id, "reconciled_step")["data"] == {"step": "003-check"}


def test_a_folder_made_by_hand_is_recorded_as_failed_and_left_standing(project):
    project.good_agents()
    run_id = project.run_json()["run_id"]
    made = project.step_dir(run_id, "008-act")
    (made / "files").mkdir(parents=True)
    (project.run_dir(run_id) / "steps" / "notes").mkdir()
    _start(project)
    step = project.show(run_id)["steps"][-1]
    assert (step["step_index"], step["role"], step["status"]) == (8, "act", "fail")
    assert project.event(run_id, "reconciled_step")["data"] == {"step": "008-act"}
    epoch = project.show(run_id)["claim_epoch"]
    _start(project)
    assert project.show(run_id)["claim_epoch"] == epoch
    assert made.is_dir()


def test_an_old_temporary_folder_goes_with_the_next_command(project):
    project.good_agents()
    run_id = project.run_json()["run_id"]
    epoch = project.show(run_id)["claim_epoch"]
    old, new = (project.run_dir(run_id) / "steps" / f"008-act.tmp-{name}" for name in ("o", "n"))
    for path in (old, new):
        path.mkdir()
    os.utime(old, (OLD, OLD))
    _start(project)
    assert not old.exists()
    assert new.exists(), "somebody may be unpacking it just now"
    assert project.show(run_id)["claim_epoch"] == epoch


@pytest.mark.real
def test_a_mended_run_keeps_where_its_intact_steps_are_archived(project):
    project.good_agents()
    run_id = project.run_json("--budget", "max_iterations=1")["run_id"]
    _sql(project, "UPDATE steps SET archive = 'a' || step_index, archive_sha256 = 'x'")
    _sql(project, "UPDATE steps SET summary = 'forged' WHERE step_index = 2")
    assert project.treadle("doctor", "--repair", "--json").json["repaired"] == [run_id]
    assert [step["archive"] for step in project.show(run_id)["steps"]] == ["a1", "a2", "a3"]


@pytest.mark.real
@pytest.mark.parametrize("point", ["after_folder", "after_row"])
def test_a_killed_prune_brings_no_run_back(project, point):
    project.good_agents()
    project.run_json()
    words = ("runs", "prune", "--history", "--unlanded", "--older-than", "0")
    assert project.treadle(*words, env={"TREADLE_DIE_AT": point}).code == -9
    assert project.treadle(*words).code == 0
    _start(project)
    assert project.treadle("runs", "list", "--json").json["runs"] == []
    assert list((project.root / ".treadle" / "runs").iterdir()) == []


@pytest.mark.real
def test_a_step_whose_branch_went_elsewhere_is_adopted_and_ends_its_run(project):
    project.good_agents()
    assert project.run(env={"TREADLE_DIE_AT": "after_rename:4"}).code == -9
    run = project.only_run()
    project.git("commit", "-q", "--allow-empty", "-m", "other")
    project.git("branch", "-f", run["branch"], "HEAD")
    _start(project)
    shown = project.show(run["run_id"])
    assert (shown["status"], shown["reason_code"]) == ("failed", "branch_moved")
    assert (shown["steps"][-1]["role"], shown["owner"]) == ("act", None)


@pytest.mark.real
def test_a_comment_survives_a_lost_store(project):
    project.good_agents()
    run_id = project.run_json("--budget", "max_iterations=1")["run_id"]
    assert project.treadle("comment", run_id, "Be kind", "--step", "3").code == 0
    for path in (project.root / ".treadle").glob("treadle.db*"):
        path.unlink()
    words = ("run", "--resume", run_id, "--budget", "max_iterations=3")
    assert project.treadle(*words).code == 0
    request = json.loads((project.step_dir(run_id, "004-act") / "input.json").read_text())
    assert "Be kind" in request["context"]["notes"]


@pytest.mark.real
@pytest.mark.parametrize("gone", [".treadle/runs", ".treadle"])
def test_a_folder_deleted_in_mid_run_is_said_in_words(project, gone):
    project.good_agents()
    project.settings('sandbox = "off"\n')
    project.agent("do", f"import shutil; shutil.rmtree({str(project.root / gone)!r}); ok()")
    ended = project.run("--json")
    assert ended.code == 1, ended
    error = ended.json["error"]
    assert error["code"] == "project_gone"
    assert gone in error["message"]


@pytest.mark.real
def test_locks_deleted_while_a_pass_works_do_not_let_a_second_one_in(inbox):
    go = inbox.folder / "go"
    routine(inbox, "log", f"#!/bin/sh\n# Wait\nuntil [ -e {go} ]; do sleep 0.05; done\necho > x\n")
    inbox.settings('default_routine = "log"\nsandbox = "off"\n')
    spec(inbox, "a.spec.md")
    first = inbox.start("process")
    runs, locks = inbox.root / ".treadle" / "runs", inbox.root / ".treadle" / "locks"
    wait_for(lambda: list(runs.glob("*/steps/*.tmp-*/input.json")))
    shutil.rmtree(locks)
    second = inbox.treadle("process")
    wait_for(lambda: (locks / "run.lock").exists())
    third = inbox.treadle("process")
    go.touch()
    _, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    assert (second.code, third.code) == (75, 75)
    assert f"pid {first.pid}" in third.err
    assert not (inbox.root / ".treadle" / "inbox" / "dead").exists()
    assert len(list((inbox.root / ".treadle" / "inbox" / "done").iterdir())) == 1
