"""A person takes a run over: their own shell in its workspace, and a step of theirs afterwards."""

import json
import os
import pty
import shlex

import pytest

from tests.acceptance import messages
from tests.acceptance.test_fleet import QUICK
from tests.acceptance.test_sandbox import DAILY
from tests.builder import git, make_repository, wait_for

FROM_A_FILE = ("-c", "protocol.file.allow=always")


def stopped(project):
    """A run whose agents cannot make what is asked."""
    project.good_agents()
    project.agent("act", "ok()")
    return project.run_json("--budget", "max_iterations=1")["run_id"]


def enter(project, run_id, script, *options, **more):
    return project.treadle("enter", run_id, *options, "--", "sh", "-c", script, **more)


def test_what_a_person_changes_is_a_step_and_the_run_goes_on_as_printed(project):
    run_id = stopped(project)
    found = enter(project, run_id, "echo made > done.txt")
    assert found.code == 0
    assert f"step 4 of run {run_id} by human took 1 file: done.txt" in found.out
    step = project.show(run_id)["steps"][-1]
    assert (step["role"], step["agent"], step["status"]) == ("do", "human", "ok")
    assert "made" in (project.step_dir(run_id, "004-do") / "files/workspace.diff").read_text()
    assert "made" not in project.git("show", "HEAD", "--stat")
    command = next(it for it in found.out.splitlines() if "next: " in it).partition("next: ")[2]
    assert command == f"treadle run --resume {run_id}"
    again = project.treadle(*shlex.split(command)[1:], "--json")
    assert (again.code, again.json["status"]) == (0, "passed")
    assert [it["role"] for it in project.show(run_id)["steps"]][3:] == ["do", "check"]
    assert project.treadle("land", run_id).code == 0
    assert (project.root / "done.txt").read_text() == "made\n"


def test_it_goes_on_itself_if_asked_to(project):
    run_id = stopped(project)
    found = enter(project, run_id, "echo made > done.txt; echo noise", "--resume", "--json")
    assert (found.code, found.json["step"], found.json["files"]) == (0, 4, ["done.txt"])
    assert found.json["resumed"]["status"] == "passed"


def test_a_failed_run_can_be_entered_by_the_end_of_its_name(project):
    project.good_agents()
    project.agent("plan", "sys.exit(1)")
    run_id = project.run_json()["run_id"]
    assert enter(project, run_id[-6:], "echo made > done.txt", "--resume").code == 0
    assert project.show(run_id)["status"] == "passed"


@pytest.mark.parametrize("tier", DAILY)
def test_what_a_failing_setup_leaves_for_git_runs_in_nobodys_shell(project, tmp_path, tier):
    project.good_agents()
    canary = tmp_path / "canary"
    plant = f"git config core.fsmonitor 'touch {canary}'; false"
    project.settings(
        f'[sandbox]\ntier = "{tier}"\n[workspace]\nsetup = ["sh", "-c", {json.dumps(plant)}]\n'
    )
    found = project.run_json()
    assert found["reason_code"] == "setup_failed"
    git(project.run_dir(found["run_id"]) / "workspace", "status")
    assert not canary.exists()
    entered = enter(project, found["run_id"], "git status > done.txt; test -s done.txt")
    assert "by human took 1 file: done.txt" in entered.out
    assert not canary.exists()


@pytest.mark.parametrize("tier", DAILY)
@pytest.mark.parametrize("end", ["ok()", pytest.param("sys.exit(1)", marks=pytest.mark.real)])
def test_a_run_that_has_ended_leaves_no_settings_of_its_agents_for_git(
    project, tmp_path, tier, end
):
    project.good_agents()
    canary = tmp_path / "canary"
    plant = f"git -C {{repo}} config core.fsmonitor 'touch {canary}'"
    project.agent("do", f'import os\nassert not os.system(f"{plant}")\n{end}', edits=True)
    project.agent("act", "sys.exit(1)")
    project.settings(f'[sandbox]\ntier = "{tier}"\n')
    place = project.run_dir(project.run_json()["run_id"]) / "workspace"
    git(place, "status")
    assert not canary.exists()


@pytest.mark.parametrize("tier", DAILY)
def test_a_submodule_has_no_settings_of_an_agent_for_git(project, tmp_path, tier):
    """To tell whether a submodule has changed, git asks what runs there."""
    module = make_repository(tmp_path / "module", {"a.txt": "a\n"})
    git(project.root, *FROM_A_FILE, "submodule", "add", "-q", str(module), "libs/sub")
    git(project.root, "commit", "-q", "-m", "A submodule")
    project.good_agents()
    canary = tmp_path / "canary"
    lines = (
        "git init -q {repo}/libs/sub",
        f"git -C {{repo}}/libs/sub config core.fsmonitor 'touch {canary}'",
        "touch {repo}/libs/sub/a.txt && git -C {repo}/libs/sub add a.txt",
        "git -C {repo}/libs/sub -c user.name=x -c user.email=x commit -qm x",
    )
    plant = "".join(f'assert not os.system(f"{line}")\n' for line in lines)
    project.agent("do", f"import os\n{plant}ok()", edits=True)
    project.agent("act", "ok()")
    project.settings(f'[sandbox]\ntier = "{tier}"\n')
    found = project.run_json("--budget", "max_iterations=1")
    git(project.run_dir(found["run_id"]) / "workspace", "status")
    enter(project, found["run_id"], "git status && git submodule status && echo made > done.txt")
    assert not canary.exists()
    assert project.show(found["run_id"])["steps"][-1]["agent"] == "human"


@pytest.mark.real
def test_a_setup_that_is_stopped_lets_nobody_in(project, tmp_path):
    project.good_agents()
    begun, place = tmp_path / "begun", project.root / ".treadle" / "runs"
    plan = f"[ -e {tmp_path}/again ] && touch {begun} && sleep 60; touch {tmp_path}/again; false"
    more = f'[workspace]\nsetup = ["sh", "-c", {json.dumps(plan)}]\n'
    project.settings(f'[checks]\nwritable = ["{tmp_path}"]\n{more}')
    run_id = project.run_json()["run_id"]
    process = project.start("enter", run_id, "--", "touch", str(place / "entered"))
    wait_for(begun.exists)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not (place / "entered").exists()


@pytest.mark.real
def test_the_users_own_shell_has_the_terminal(project):
    run_id = stopped(project)
    ours, theirs = pty.openpty()
    pid = os.fork()
    if not pid:
        os.setsid()
        for number in range(3):
            os.dup2(theirs, number)
        os.chdir(project.root)
        words = [os.sys.executable, "-m", "treadle", "enter", run_id]
        os.execve(os.sys.executable, words, project.environment({"SHELL": "/bin/sh"}))
    os.close(theirs)
    said = b""
    while b"leave it with" not in said:
        said += os.read(ours, 4096)
    os.write(ours, b"echo made > done.txt\nexit\n")
    while b"by human" not in said:
        said += os.read(ours, 4096)
    os.close(ours)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (0, 1)
    assert project.show(run_id)["steps"][-1]["agent"] == "human"


@pytest.mark.real
def test_nothing_changed_changes_nothing(project):
    run_id = stopped(project)
    before = project.show(run_id)
    found = enter(project, run_id, "true")
    assert (found.code, "nothing was changed" in found.out) == (0, True)
    after = project.show(run_id)
    assert (after["steps"], after["status"]) == (before["steps"], before["status"])
    assert len(project.treadle("desk", "--json").json["items"]) == 1


@pytest.mark.real
def test_it_is_judged_like_any_other_step(project):
    run_id = stopped(project)
    found = enter(project, run_id, "mkdir -p .github/workflows; echo x > .github/workflows/x.yml")
    assert "was not taken" in found.out
    assert project.show(run_id)["status"] == "stopped"
    (item,) = project.treadle("desk", "--json").json["items"]
    assert item["kind"] == "approval"
    assert project.treadle("answer", item["item_id"], "approve").code in (0, 1, 4)
    files = project.git("ls-tree", "-r", "--name-only", project.show(run_id)["branch"])
    assert ".github/workflows/x.yml" in files


@pytest.mark.real
def test_nobody_enters_what_somebody_drives(project):
    project.good_agents()
    project.agent("do", "(step / 'here').touch(); time.sleep(600)")
    process = project.start("run", "--goal", "Make done.txt", "--ac", "it is there")
    wait_for(lambda: list(project.root.glob(".treadle/runs/*/steps/*.tmp-*/here")))
    refused = enter(project, project.only_run()["run_id"], "touch x", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (75, "locked")
    process.terminate()
    process.communicate()


@pytest.mark.real
def test_nobody_enters_what_a_worker_drives(project):
    project.good_agents()
    project.agent("do", "time.sleep(600)")
    run_id = project.run_json("--fleet")["run_id"]
    queued = enter(project, run_id, "touch x", "--json")
    assert (queued.code, queued.json["error"]["code"]) == (3, "run_elsewhere")
    worker = project.start("worker", "--once", "--idle-exit", "20", env=QUICK)
    try:
        before = wait_for(lambda: (found := project.show(run_id))["steps"] and found)
        assert before["status"] == "running"
        refused = enter(project, run_id, "touch x", "--json")
        error = refused.json["error"]
        assert (refused.code, error["code"]) == (3, "run_elsewhere")
        assert f"treadle stop {run_id}" in error["fix"]
        assert project.show(run_id)["steps"] == before["steps"]
        assert project.treadle("stop", run_id).code == 0
        wait_for(lambda: project.show(run_id)["status"] == "stopped")
    finally:
        worker.terminate()
        worker.communicate()


@pytest.mark.real
def test_what_cannot_be_entered_says_why_and_what_to_do(project):
    project.good_agents()
    run_id = project.run_json()["run_id"]
    passed = enter(project, run_id, "touch x", "--json").json["error"]
    assert (passed["code"], f"treadle land {run_id}" in passed["fix"]) == ("not_resumable", True)
    project.treadle("land", run_id)
    landed = enter(project, run_id, "touch x", "--json").json["error"]
    assert "has landed" in landed["message"]
    assert f"treadle undo {run_id}" in landed["fix"]
    unknown = enter(project, "20200101-000000-aaaaaa", "touch x", "--json")
    assert (unknown.code, unknown.json["error"]["code"]) == (1, "not_found")


@pytest.mark.real
def test_a_pruned_run_is_gone_and_a_pruned_workspace_comes_back(project):
    run_id = stopped(project)
    project.treadle("runs", "prune")
    assert not (project.run_dir(run_id) / "workspace").exists()
    assert enter(project, run_id, "echo made > done.txt", "--resume").code == 0
    other = stopped(project)
    project.treadle("runs", "prune", "--history")
    gone = enter(project, other, "touch x", "--json")
    assert (gone.code, gone.json["error"]["code"]) == (1, "not_found")


@pytest.mark.real
def test_a_run_in_the_project_itself_has_no_workspace(project):
    messages.routine(project, "log", "#!/bin/sh\n# Log\n# workspace: project\nexit 1\n")
    project.settings('default_routine = "log"\nmax_retries = 1\n')
    project.treadle("send", "Do it")
    project.treadle("process")
    run_id = project.only_run()["run_id"]
    assert project.show(run_id)["branch"] is None
    refused = enter(project, run_id, "touch x", "--json")
    error = refused.json["error"]
    assert (refused.code, error["code"]) == (3, "no_workspace")
    assert error["fix"] == [f"treadle why {run_id}"]
    assert project.treadle(*error["fix"][0].split()[1:]).code == 0
    assert not (project.root / "x").exists()


@pytest.mark.real
@pytest.mark.parametrize(
    "point", ["after_entered", "after_left", "before_rename", "after_rename", "after_branch"]
)
def test_a_kill_loses_nothing_that_was_changed(project, point):
    run_id = stopped(project)
    script = "echo made > done.txt"
    assert enter(project, run_id, script, env={"TREADLE_DIE_AT": point}).code == -9
    again = enter(project, run_id, "true" if point != "after_entered" else script)
    assert again.code == 0
    project.treadle("run", "--resume", run_id)
    found = project.show(run_id)
    assert found["status"] == "passed"
    assert [step["agent"] for step in found["steps"]].count("human") == 1
