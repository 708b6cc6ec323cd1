"""A store that is lost, damaged or contradicted."""

import shutil
import sqlite3

import pytest

from treadle.layout import Layout
from treadle.store.store import Reader

# What a rebuild may change: the epoch that keeps a lost owner out, and its own event.
VOLATILE = ("claim_epoch", "owner")


def _everything(project, run_id):
    with Reader.open(Layout(project.root)) as store:
        row = {k: v for k, v in store.run(run_id)._asdict().items() if k not in VOLATILE}
        events = [event for event in store.events(run_id) if event.type != "store_rebuilt"]
        return row, store.steps(run_id), events, store.kv(run_id), store.checks(run_id)


def _rebuild(project):
    return project.treadle("doctor", "--repair", "--json")


def test_a_deleted_store_is_rebuilt_from_the_run_folders(project):
    project.good_agents()
    run_id = project.run_json("--verify", "AC1=test -f done.txt")["run_id"]
    before = _everything(project, run_id)
    for path in (project.root / ".treadle").glob("treadle.db*"):
        path.unlink()
    _rebuild(project)
    assert _everything(project, run_id) == before
    assert "store_rebuilt" in project.event_types(run_id)


def test_a_damaged_store_is_set_aside_and_rebuilt(project):
    project.good_agents()
    run_id = project.run_json()["run_id"]
    before = _everything(project, run_id)
    database = project.root / ".treadle" / "treadle.db"
    for path in (project.root / ".treadle").glob("treadle.db-*"):
        path.unlink()
    database.write_bytes(b"rubbish" * 1000)
    refused = project.treadle("runs", "list", "--json")
    assert refused.json["error"]["fix"] == ["treadle doctor --repair"]
    _rebuild(project)
    assert _everything(project, run_id) == before
    assert list((project.root / ".treadle").glob("treadle.db.damaged-*"))


def test_a_stopped_run_goes_on_after_a_rebuild(project):
    project.good_agents()
    first = project.run_json("--budget", "max_iterations=1")
    for path in (project.root / ".treadle").glob("treadle.db*"):
        path.unlink()
    result = project.treadle(
        "run", "--resume", first["run_id"], "--budget", "max_iterations=3", "--json"
    )
    assert result.json["status"] == "passed"


@pytest.mark.real
def test_rows_and_folders_that_disagree_are_noticed_and_mended(project):
    project.good_agents()
    first = project.run_json("--budget", "max_iterations=1")
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as store:
        store.execute("UPDATE steps SET status = 'ok', summary = 'forged' WHERE step_index = 2")
    answer = project.treadle("run", "--resume", first["run_id"], "--json")
    assert (answer.code, answer.json["error"]["code"]) == (3, "row_mismatch")
    assert "row_mismatch" in project.event_types(first["run_id"])
    lost = project.run_json("--budget", "max_iterations=1")["run_id"]
    shutil.rmtree(project.run_dir(lost))
    assert f"{lost}/run.json: is missing" in project.treadle("run", "--resume", lost).err
    assert sorted(_rebuild(project).json["repaired"]) == sorted([first["run_id"], lost])
    again = project.treadle(
        "run", "--resume", first["run_id"], "--budget", "max_iterations=3", "--json"
    )
    assert again.json["status"] == "passed"


def test_a_step_folder_without_a_readable_intent_is_recorded_as_failed(project):
    project.good_agents()
    assert project.run(env={"TREADLE_DIE_AT": "after_rename:2"}).code == -9
    run_id = project.only_run()["run_id"]
    (project.step_dir(run_id, "002-do") / "step.json").write_text("{}")
    result = project.treadle("run", "--resume", run_id, "--json")
    assert result.json["status"] == "passed"
    steps = project.show(run_id)["steps"]
    assert [(step["role"], step["status"]) for step in steps[:3]] == [
        ("plan", "ok"),
        ("do", "fail"),
        ("do", "ok"),
    ]
    event = project.event(run_id, "reconciled_step")
    assert event["message"] == (
        "Step dir exists but DB record was missing; inserted during recovery"
    )


def test_a_superseded_owner_cannot_commit(project):
    project.good_agents()
    bump = (
        "import sqlite3\n"
        f"db = sqlite3.connect({str(project.root / '.treadle/treadle.db')!r})\n"
        "db.execute('UPDATE runs SET claim_epoch = claim_epoch + 1'); db.commit()\n"
        "ok()"
    )
    project.agent("do", bump)
    project.settings('sandbox = "off"\n')  # it would keep the agent from the store
    answer = project.run("--json")
    assert (answer.code, answer.json["error"]["code"]) == (1, "fenced")
    (step,) = project.show(project.only_run()["run_id"])["steps"]
    assert step["role"] == "plan"


def test_the_task_of_a_rebuilt_run_comes_back(project):
    project.good_agents()
    project.treadle("task", "add", "Make done.txt", "--id", "AUTH-012", "--ac", "it is there")
    project.treadle("run", "AUTH-012")
    for path in (project.root / ".treadle").glob("treadle.db*"):
        path.unlink()
    missing = project.treadle("runs", "list", "--json")
    assert "treadle doctor --repair" in missing.err
    _rebuild(project)
    shown = project.treadle("task", "show", "AUTH-012", "--json").json
    assert (shown["lane"], len(shown["runs"])) == ("approved", 1)


def test_a_run_killed_before_its_row_was_written_is_stopped_not_running(project):
    project.good_agents()
    assert project.run(env={"TREADLE_DIE_AT": "before_run_row"}).code == -9
    assert project.treadle("runs", "list", "--json").json["runs"] == []
    project.treadle("runs", "prune")
    assert project.only_run()["status"] == "stopped"
