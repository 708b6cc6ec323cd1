"""Kill the real command at every boundary of a step's commit; then nothing may be lost."""

import json
import sqlite3

import pytest

from tests.crash.settle import RUN, TASK
from tests.crash.told import untold

# How often a run of seven steps with one patch gets there.
ONCE = ("before_run_row", "after_run_row", "before_branch", "after_branch", "after_workspace")
RARE = ("before_run_file", "after_run_file")
OFTEN = (
    *("after_stage", "after_agent", "before_manifest", "before_sync", "before_rename"),
    *("after_rename", "before_transaction", "after_transaction"),
)
# One step of each run is enough for a quick look; the others wait for --real.
QUICK = [
    *(f"{name}:1" for name in (*ONCE, *RARE)),
    *(f"{name}:2" for name in OFTEN),
]
SLOW = [f"{name}:{n}" for name in OFTEN for n in (1, 3, 4, 5, 6, 7)]


def _rows(project):
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as store:
        return store.execute("SELECT * FROM steps ORDER BY run_id, step_index").fetchall()


def _folders(project):
    found = (project.root / ".treadle" / "runs").glob("*/steps/*")
    return sorted(path for path in found if ".tmp-" not in path.name)


def test_there_are_enough_kills():
    assert len(QUICK + SLOW) >= 60


@pytest.mark.parametrize(
    "point", [*QUICK, *(pytest.param(point, marks=pytest.mark.real) for point in SLOW)]
)
def test_kill_and_recover(project, point):
    project.good_agents()
    project.treadle(*TASK)
    killed = project.treadle(*RUN, env={"TREADLE_DIE_AT": point})
    assert killed.code == -9, killed.err
    rows, folders = _rows(project), _folders(project)
    intents = {path: json.loads((path / "step.json").read_text())["row"] for path in folders}

    listed = project.treadle("runs", "list", "--json").json["runs"]
    if listed:
        run_id = listed[0]["run_id"]
        result = project.treadle("run", "--resume", run_id, "--json")
        if result.code == 3:
            # The last transaction was through: the run had already passed.
            assert result.json["error"]["code"] == "not_resumable"
        result = project.show(run_id)
    else:
        result = project.treadle(*RUN, "--json").json
        run_id = result["run_id"]
    assert result["status"] == "passed"
    assert untold(project.root, RUN[1]) == []

    after = _rows(project)
    assert after[: len(rows)] == rows, "a committed step was lost or changed"
    statuses = {row[5]: row[4] for row in after}
    for path, row in intents.items():
        name = str(path.relative_to(project.root))
        assert statuses[name] == row["status"] == "ok", "finished work was demoted"
    assert not list((project.root / ".treadle" / "runs").glob("*/steps/*.tmp-*"))
    assert [row[5] for row in after if row[0] == run_id] == [
        str(path.relative_to(project.root)) for path in _folders(project) if run_id in str(path)
    ]
    base, branch = result["base_commit"], result["branch"]
    assert project.git("rev-list", "--count", f"{base}..{branch}").strip() == "1"
    assert project.git("show", f"{branch}:done.txt") == "done\n"
    project.git("fsck", "--strict")
    assert project.git("status", "--porcelain", "--", ":!.treadle") == ""


@pytest.mark.real
@pytest.mark.parametrize("second", ["before_run_file", "after_run_file"])
def test_a_second_kill_during_recovery(project, second):
    project.good_agents()
    assert project.run(env={"TREADLE_DIE_AT": "after_rename:4"}).code == -9
    run_id = project.only_run()["run_id"]
    again = project.treadle("run", "--resume", run_id, env={"TREADLE_DIE_AT": second})
    assert again.code == -9
    result = project.treadle("run", "--resume", run_id, "--json").json
    assert result["status"] == "passed"
    assert (
        project.git("rev-list", "--count", f"{result['base_commit']}..{result['branch']}") == "1\n"
    )
    assert project.event_types(run_id).count("reconciled_step") == 1
    seqs = [event["seq"] for event in project.events(run_id)]
    assert seqs == list(range(1, len(seqs) + 1))
