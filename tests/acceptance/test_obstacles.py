"""What stands in a step's way ends its run in order, and no other run with it."""

import os

import pytest

from tests.builder import git

WRITES = 'name = request["goal"]; (repo / name).write_text(name); ok()'
SHUT = {
    "a file": 'write("files/a", "1"); os.chmod(step / "files/a", 0)',
    "a folder": 'write("files/a/b", "1"); os.chmod(step / "files/a", 0)',
    "its own folder": "os.chmod(step, 0)",
    "the outbox": '(step / "outbox").mkdir(exist_ok=True); os.chmod(step / "outbox", 0)',
}


def add(project, *names):
    for name in names:
        project.treadle("task", "add", name, "--id", name, "--verify", f"AC1=test -f {name}")


@pytest.mark.parametrize("what", SHUT)
def test_what_an_agent_shuts_to_its_owner_fails_the_step(project, what):
    project.agent("do", f"ok()\n{SHUT[what]}", edits=True)
    found = project.run_json("--verify", "AC1=true", "--anyway")
    assert (found["status"], found["reason_code"]) == ("failed", "protocol_error")
    folder = project.step_dir(found["run_id"], "002-do")
    assert all(os.access(path, os.R_OK) for path in (folder, *folder.rglob("*")))
    if what == "a file":
        assert (folder / "files/a").read_text() == "1"


def test_a_branch_that_is_checked_out_stops_its_run_alone(project, tmp_path):
    place = tmp_path / "look"
    look = f'subprocess.run(["git", "-C", {str(project.root)!r}, "worktree", "add",'
    look += (
        f' {str(place)!r}, "treadle/" + request["run_id"]], check=True, stdout=subprocess.DEVNULL)'
    )
    project.settings('[sandbox]\nmode = "off"\n')
    code = f'import subprocess\nif request["goal"] == "A-1": {look}\n{WRITES}'
    project.agent("do", code, edits=True)
    add(project, "A-1", "A-2")
    result = project.treadle("run", "--json")
    runs = {run["goal"]: run for run in project.treadle("runs", "list", "--json").json["runs"]}
    assert [runs[name]["status"] for name in ("A-1", "A-2")] == ["stopped", "passed"], result.out
    first = runs["A-1"]["run_id"]
    assert project.show(first)["reason_code"] == "branch_checked_out"
    assert project.treadle("run", "--resume", first).code != 0
    git(project.root, "worktree", "remove", "--force", str(place))
    assert project.treadle("run", "--resume", first).code == 0
    assert project.git("show", f"treadle/{first}:A-1") == "A-1"


def test_runs_side_by_side_have_ports_of_their_own(project):
    code = 'open(os.environ["PORTS"] + "/" + os.environ["TREADLE_PORT_BASE"], "x")\n'
    project.settings('[sandbox]\nmode = "off"\n')
    ports = project.root.parent / "ports"
    ports.mkdir()
    project.agent("do", f"{code}{WRITES}", edits=True, env_allow=["PORTS"])
    add(project, "A-1", "A-2", "A-3", "A-4")
    result = project.treadle("run", "--parallel", "4", env={"PORTS": str(ports)})
    assert result.code == 0, result
    assert len(list(ports.iterdir())) == 4
