"""The wheel through the real command: the contract's checklist and what surrounds it."""

import json
import os
import sqlite3
import subprocess

import pytest

from tests.builder import ADD_DONE

EIGHT = ["001-plan", "002-do", "003-check", "004-act", "005-plan", "006-do", "007-check"]


def test_run_passes_in_the_second_iteration_after_a_patch(project):
    project.good_agents()
    result = project.run_json()
    assert result["code"] == 0
    assert (result["status"], result["verdict"]) == ("passed", "PASS")
    assert (result["iteration"], result["steps"]) == (2, 7)
    assert project.git("show", f"{result['branch']}:done.txt") == "done\n"
    assert project.git("rev-parse", "HEAD").strip() == result["base_commit"]
    assert project.git("rev-parse", result["branch"]).strip() == result["head_commit"]


def test_run_of_a_task_creates_a_run_and_a_database_entry(project):
    project.good_agents()
    task = project.treadle("task", "add", "Make done.txt", "--ac", "it is there", "--json").json
    result = project.treadle("run", task["task_id"], "--json").json
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as store:
        rows = store.execute("SELECT run_id, goal, status FROM runs").fetchall()
    assert rows == [(result["run_id"], "Make done.txt", "passed")]


def test_each_step_leaves_its_artifacts(project):
    project.good_agents()
    run_id = project.run_json()["run_id"]
    folder = project.run_dir(run_id)
    assert sorted(path.name for path in (folder / "steps").iterdir()) == EIGHT
    for name in EIGHT:
        step = folder / "steps" / name
        for file in ("input.json", "output.json", "step.json", "stdout.txt", "stderr.txt"):
            path = step / "logs" / file if file.endswith(".txt") else step / file
            assert path.is_file(), f"{name}/{file}"
    assert (folder / "steps/001-plan/plan.md").read_text() == "1. look"
    assert (folder / "steps/002-do/files/run.log").read_text() == "ran"
    assert (folder / "steps/003-check/scorecard.md").read_text() == "# FAIL"
    assert (folder / "steps/004-act/patch.diff").read_text() == ADD_DONE
    assert "done.txt is there" in (folder / "treadle.md").read_text()
    assert json.loads((folder / "run.json").read_text())["order"]["goal"] == "Make done.txt"


def test_input_is_exactly_what_was_sent(project):
    project.good_agents()
    project.agent("plan", 'write("seen.json", json.dumps(request)); ok()')
    run_id = project.run_json()["run_id"]
    step = project.step_dir(run_id, "001-plan")
    sent = json.loads((step / "input.json").read_text())
    assert json.loads((step / "seen.json").read_text()) == sent
    assert sent["step"] == {"index": 1, "role": "plan", "iteration": 1}
    assert sent["norma"]["acceptance_criteria"] == [{"id": "AC1", "text": "done.txt is there"}]
    assert sent["norma"]["budgets"]["max_iterations"] == 5
    assert sent["paths"]["run_dir"] == str(project.run_dir(run_id))


def test_previous_steps_are_named_in_order(project):
    project.good_agents()
    run_id = project.run_json()["run_id"]
    sent = json.loads((project.step_dir(run_id, "003-check") / "input.json").read_text())
    folders = [path.rsplit("/", 1)[1] for path in sent["context"]["previous_step_dirs"]]
    assert folders == ["001-plan", "002-do"]


def test_the_patch_is_recorded_with_before_and_after(project):
    project.good_agents()
    result = project.run_json()
    event = project.event(result["run_id"], "patch_applied")
    assert event["data"]["before"]["commit"] == result["base_commit"]
    assert event["data"]["after"]["commit"] == result["head_commit"]
    tree = project.git("rev-parse", f"{result['head_commit']}^{{tree}}").strip()
    assert event["data"]["after"]["tree"] == tree
    step = json.loads((project.step_dir(result["run_id"], "004-act") / "step.json").read_text())
    assert step["after"] == event["data"]["after"]


def test_the_users_checkout_is_untouched(project):
    (project.root / "notes.txt").write_text("mine")
    (project.root / "README.md").write_text("# Edited\n")
    before = project.git("status", "--porcelain"), project.git("rev-parse", "HEAD")
    project.good_agents()
    before = project.git("status", "--porcelain"), project.git("rev-parse", "HEAD")
    result = project.run_json()
    assert (project.git("status", "--porcelain"), project.git("rev-parse", "HEAD")) == before
    event = project.event(result["run_id"], "base_dirty")
    assert {"README.md", "notes.txt"} <= set(event["data"]["files"])


def test_a_pipe_that_git_would_wait_for_is_named_before_anything_begins(project):
    project.good_agents()
    project.treadle("task", "add", "Work", "--id", "A-1", "--verify", "AC1=true")
    (project.root / "new").mkdir()
    (project.root / "new" / "file").touch()
    os.mkfifo(project.root / "new" / ".gitignore")
    os.mkfifo(project.root / "pipe")  # which git passes by
    refused = project.treadle("run", "A-1", "--anyway", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "special_file")
    assert project.treadle("runs", "list", "--json").json["runs"] == []
    (command,) = refused.json["error"]["fix"]
    subprocess.run(["sh", "-c", command], check=True)
    assert project.treadle("run", "A-1", "--anyway", "--json").code == 0


def test_an_agent_in_shell_runs_unchanged(project):
    script = project.root / "bin" / "agent"
    script.parent.mkdir()
    script.write_text(
        '#!/bin/sh\ncat >/dev/null\necho \'{"version": 1, "status": "ok", "summary": "from sh"}\'\n'
    )
    script.chmod(0o755)
    project.good_agents()
    project.command("plan", ["./bin/agent"])
    result = project.run_json()
    assert result["status"] == "passed"
    assert project.show(result["run_id"])["steps"][0]["summary"] == "from sh"


def test_config_json_of_the_contract_is_read(project):
    project.good_agents()
    document = {
        "agents": {
            role: {"type": "exec", "cmd": json.loads(text.splitlines()[1].split(" = ")[1])}
            for role, text in project.config.items()
        },
        "budgets": {"max_iterations": 5, "max_patch_kb": 200},
    }
    (project.root / ".treadle" / "config.toml").unlink()
    (project.root / ".treadle" / "config.json").write_text(json.dumps(document))
    assert project.run_json()["status"] == "passed"


def test_observed_beats_claimed(project):
    project.good_agents()
    project.agent("check", 'verdict("PASS", AC1=True); ok()')
    result = project.run_json("--verify", "AC1=test -f done.txt")
    assert (result["status"], result["iteration"]) == ("passed", 2)
    types = project.event_types(result["run_id"])
    assert types.count("claim_refuted") == 1
    first = project.step_dir(result["run_id"], "003-check")
    assert json.loads((first / "verdict.json").read_text())["verdict"] == "PASS"
    (seen,) = json.loads((first / "files/checks/observed.json").read_text())
    assert (seen["pass"], seen["exit_code"]) == (False, 1)


def test_builtin_checks_by_the_commands_alone(project):
    project.agent("act", f'write("patch.diff", {ADD_DONE!r}); ok()')
    result = project.run_json("--verify", "AC1=test -f done.txt")
    assert result["status"] == "passed"
    statuses = [step["status"] for step in project.show(result["run_id"])["steps"]]
    assert statuses == ["skipped", "skipped", "ok", "ok", "skipped", "skipped", "ok"]
    scorecard = project.step_dir(result["run_id"], "007-check") / "scorecard.md"
    assert "test -f done.txt" in scorecard.read_text()


def test_a_check_that_passes_before_any_work_is_reported(project):
    project.agent("act", "ok()")
    result = project.run_json("--verify", "AC1=true", "--anyway")
    event = project.event(result["run_id"], "check_before")
    assert event["data"] == {"id": "AC1", "passed": True}
    (view,) = project.show(result["run_id"])["criteria"]
    assert (view["before"], view["observed"]) == (True, True)


def test_configured_verify_commands_apply_by_text(project):
    project.settings('[verify]\n"done.txt" = "test -f done.txt"\n')
    project.agent("act", f'write("patch.diff", {ADD_DONE!r}); ok()')
    assert project.run_json()["status"] == "passed"


def test_the_check_agent_sees_the_observed_results(project):
    project.good_agents()
    project.agent(
        "check",
        'seen = request["norma"]["observed"][0]\n'
        'write("files/copy.txt", (step / seen["log"]).read_text())\n'
        'verdict("PASS" if seen["pass"] else "FAIL", AC1=seen["pass"]); ok()',
    )
    result = project.run_json("--verify", "AC1=echo looked; test -f done.txt")
    copy = project.step_dir(result["run_id"], "003-check") / "files/copy.txt"
    assert copy.read_text() == "looked\n"
    assert result["status"] == "passed"


def test_what_check_commands_change_is_undone(project):
    project.settings('[checks]\nplace = "workspace"\n')
    project.agent("act", f'write("patch.diff", {ADD_DONE!r}); ok()')
    command = "echo x >> README.md; echo y > junk.txt; test -f done.txt"
    result = project.run_json("--verify", f"AC1={command}")
    assert result["status"] == "passed"
    assert project.git("show", f"{result['branch']}:README.md") == "# Project\n"
    event = project.event(result["run_id"], "command_changed_files")
    assert set(event["data"]["files"]) == {"README.md", "junk.txt"}
    diff = project.step_dir(result["run_id"], "003-check") / "files/check-changes.diff"
    assert "junk.txt" in diff.read_text()


def test_no_progress_stops_the_run(project):
    project.good_agents()
    project.agent("act", "ok()")
    result = project.run_json()
    assert (result["status"], result["reason_code"]) == ("stopped", "no_progress")
    types = project.event_types(result["run_id"])
    assert "no_patch" in types
    assert "no_progress" in types


def test_a_run_that_nobody_can_check_or_change_is_refused(project):
    blocked = project.run("--json")
    assert (blocked.code, blocked.json["error"]["code"]) == (3, "nobody_checks")
    assert '--verify "AC1=make test"' in blocked.json["error"]["message"]
    assert blocked.json["error"]["fix"] == ["treadle run --help"]
    project.treadle("task", "add", "It works")
    told = project.treadle("run", "T-1", "--json").json["error"]
    assert told["fix"] == ["treadle task edit T-1 --help"]
    nobody = project.run("--verify", "AC1=true", "--json")
    assert (nobody.code, nobody.json["error"]["code"]) == (3, "nobody_works")
    edit = "${EDITOR:-vi} .treadle/config.toml"
    assert nobody.json["error"]["fix"] == [edit, "treadle doctor"]
    assert project.treadle("runs", "list", "--json").json["runs"] == []


def test_workspace_setup_and_worktreeinclude(project):
    (project.root / ".gitignore").write_text("secret.env\nbuilt/\n")
    (project.root / ".worktreeinclude").write_text("secret.env\n")
    project.git("add", ".gitignore", ".worktreeinclude")
    project.git("commit", "-qm", "Ignore")
    (project.root / "secret.env").write_text("KEY=1\n")
    project.settings('[workspace]\nsetup = ["sh", "-c", "mkdir built && cp secret.env built/"]\n')
    project.agent("act", "ok()")
    result = project.run_json("--verify", "AC1=test -f built/secret.env")
    assert result["status"] == "passed"


def test_a_failing_setup_fails_the_run_with_its_output_kept(project):
    project.settings('[workspace]\nsetup = ["sh", "-c", "echo broken >&2; exit 4"]\n')
    project.agent("act", "ok()")
    result = project.run_json("--verify", "AC1=true")
    assert (result["code"], result["reason_code"]) == (1, "setup_failed")
    assert (project.run_dir(result["run_id"]) / "setup/stderr.txt").read_text() == "broken\n"


def test_the_workspace_has_its_own_git_and_no_remote(project):
    project.good_agents()
    project.agent(
        "plan",
        "import subprocess\n"
        "run = lambda *a: subprocess.run(['git', *a], capture_output=True, text=True).stdout\n"
        "seen = run('remote') + run('status', '--porcelain') + run('log', '--format=%s')\n"
        "write('git.txt', seen)\n"
        "ok()",
    )
    result = project.run_json()
    text = (project.step_dir(result["run_id"], "001-plan") / "git.txt").read_text()
    assert text.splitlines()[0] == project.git("log", "-1", "--format=%s").strip()
    assert result["status"] == "passed"


def test_ready_tasks_run_in_order_of_their_dependencies(project):
    project.agent("act", "ok()")
    for goal in ("First", "Second", "Third"):
        project.treadle("task", "add", goal, "--verify", "AC1=true")
    project.treadle("task", "link", "T-1", "--depends-on", "T-3")
    result = project.treadle("run", "--json")
    assert result.code == 0
    assert [row["task_id"] for row in result.json["runs"]] == ["T-2", "T-3", "T-1"]
    assert project.treadle("task", "show", "T-1", "--json").json["lane"] == "done"


def test_a_failed_task_is_blocked_and_can_be_run_again(project):
    project.good_agents()
    project.agent("plan", "sys.exit(1)")
    project.treadle("task", "add", "Make done.txt")
    assert project.treadle("run", "T-1").code == 1
    assert project.treadle("task", "show", "T-1", "--json").json["lane"] == "blocked"
    project.good_agents()
    assert project.treadle("run", "T-1").code == 0
    assert len(project.treadle("task", "show", "T-1", "--json").json["runs"]) == 2


def test_a_refused_task_holds_up_no_other(project):
    project.agent("act", "ok()")
    project.treadle("task", "add", "Nobody can check this")
    project.treadle("task", "add", "Easy", "--verify", "AC1=true")
    result = project.treadle("run", "--json")
    assert result.code == 3
    assert [row["status"] for row in result.json["runs"]] == ["passed"]
    (refused,) = result.json["refused"]
    assert (refused["task_id"], refused["code"]) == ("T-1", "nobody_checks")
    assert project.treadle("task", "show", "T-1", "--json").json["lane"] == "planned"


@pytest.mark.real
@pytest.mark.parametrize("parallel", ["1", "4"])
def test_several_runs_side_by_side(project, parallel):
    project.good_agents()
    for number in range(4):
        project.treadle("task", "add", f"Make done.txt {number}", "--ac", "it is there")
    result = project.treadle("run", "--parallel", parallel, "--json")
    rows = result.json["runs"]
    assert [row["status"] for row in rows] == ["passed"] * 4
    assert len({row["branch"] for row in rows}) == 4


def test_progress_and_the_last_line_say_what_to_do(project):
    project.good_agents()
    result = project.run()
    assert result.code == 0
    assert "check 2/5" in result.err
    assert "criteria 1/1" in result.err
    assert result.out.strip().splitlines()[-1].startswith("  next: treadle land")


def test_why_explains_a_failure(project):
    project.good_agents()
    project.agent("do", "sys.stderr.write('oops'); sys.exit(3)")
    run_id = project.run_json()["run_id"]
    answer = project.treadle("why", run_id)
    assert "exited with 3" in answer.out
    assert "002-do/logs/stderr.txt" in answer.out
    assert project.treadle("why", run_id, "--json").json["reason_code"] == "agent_exit"


def test_an_agent_nobody_knows_is_named_with_where_they_stand(project):
    error = project.run_json("--agent", "act=nobody")["error"]
    assert error["message"] == "--agent act=nobody: no such agent; known: builtin"
    assert (error["code"], error["fix"]) == ("config_invalid", ["treadle config show"])
