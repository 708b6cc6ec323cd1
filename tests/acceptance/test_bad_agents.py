"""Every way an agent can misbehave: the step fails with its code, nothing else is harmed."""

import pytest

from tests.builder import ADD_DONE

# name: (role, what the agent does, code of the failure, words of the sentence)
CASES = {
    "exits non-zero": ("plan", "sys.exit(7)", "agent_exit", "exited with 7"),
    "kills itself": ("plan", "os.kill(os.getpid(), 9)", "agent_lost", "signal 9"),
    "is told to end": ("plan", "os.kill(os.getpid(), 15)", "agent_lost", "signal 15"),
    "says fail": (
        "plan",
        'print(json.dumps({"version": 1, "status": "fail", "summary": "cannot"}))',
        "agent_failed",
        "cannot",
    ),
    "prints nothing": ("plan", "pass", "protocol_error", "stdout"),
    "prints prose": ("plan", 'print("all good"); ok()', "protocol_error", "stdout"),
    "prints a fence": (
        "plan",
        'print("```json"); ok(); print("```")',
        "protocol_error",
        "stdout",
    ),
    "prints twice": (
        "plan",
        "ok(); ok()",
        "protocol_error",
        "stdout is not JSON: Extra data: line 2 column 1",
    ),
    "prints bytes": (
        "plan",
        'sys.stdout.buffer.write(b"\\xff\\xfe")',
        "protocol_error",
        "not UTF-8",
    ),
    "prints NaN": (
        "plan",
        'print(\'{"version": 1, "status": "ok", "summary": "s", "x": NaN}\')',
        "protocol_error",
        "NaN",
    ),
    "repeats a key": (
        "plan",
        'print(\'{"version": 1, "status": "fail", "status": "ok", "summary": "s"}\')',
        "protocol_error",
        "duplicate key 'status'",
    ),
    "nests 100,000 deep": ("plan", 'print("[" * 100000)', "protocol_error", "nested deeper"),
    "wrong version": (
        "plan",
        'print(\'{"version": 2, "status": "ok", "summary": "s"}\')',
        "protocol_error",
        "version",
    ),
    "files up": ("plan", 'ok(files=["../x"])', "protocol_error", "'../x'"),
    "files absolute": ("plan", 'ok(files=["/etc/passwd"])', "protocol_error", "/etc/passwd"),
    "files missing": ("plan", 'ok(files=["nothing.txt"])', "protocol_error", "nothing.txt"),
    "leaves a symlink": (
        "do",
        '(step / "evil").symlink_to("/etc/passwd"); ok()',
        "protocol_error",
        "symbolic link",
    ),
    "leaves a folder link": (
        "do",
        '(step / "files").symlink_to("/tmp"); ok()',
        "protocol_error",
        "symbolic link",
    ),
    "leaves a FIFO": ("do", 'os.mkfifo(step / "pipe"); ok()', "protocol_error", "FIFO"),
    "leaves a hard link": (
        "do",
        'write("a", "x"); os.link(step / "a", step / "b"); ok()',
        "protocol_error",
        "hard link",
    ),
    "files is a file": ("do", 'write("files", "x"); ok()', "protocol_error", "must be a folder"),
    "too many files": (
        "do",
        "for n in range(10001): (step / str(n)).touch()\nok()",
        "protocol_error",
        "more than 10000",
    ),
    "removes its own folder": (
        "do",
        "import shutil; shutil.rmtree(step); ok()",
        "protocol_error",
        "is gone",
    ),
    "puts a link in place of its folder": (
        "do",
        "step.rename(str(step) + 'x'); step.symlink_to(repo); ok()",
        "protocol_error",
        "no longer a folder",
    ),
    "removes the workspace": (
        "plan",
        "import shutil; shutil.rmtree(repo); ok()",
        "boundary_violation",
        "the workspace itself",
    ),
    "hides the workspace": (
        "plan",
        "repo.rename(str(repo) + 'x'); repo.symlink_to('/tmp'); ok()",
        "boundary_violation",
        "the workspace itself",
    ),
    "leaves a pipe in the workspace": (
        "plan",
        'os.mkfifo(repo / "pipe"); ok()',
        "boundary_violation",
        "pipes, sockets or devices in the workspace, which were removed: pipe",
    ),
    "leaves a pipe for git to read": (
        "do",
        'os.mkfifo(repo / ".gitattributes"); (repo / "new").write_text("x"); ok()',
        "boundary_violation",
        ".gitattributes",
    ),
    "leaves settings without an end": (
        "do",
        '(repo / ".gitmodules").symlink_to("/dev/zero"); ok()',
        "boundary_violation",
        ".gitmodules",
    ),
    "no verdict": ("check", "ok()", "protocol_error", "verdict.json is missing"),
    "verdict is not JSON": (
        "check",
        'write("verdict.json", "PASS"); write("scorecard.md", "x"); ok()',
        "protocol_error",
        "verdict.json",
    ),
    "verdict says otherwise": (
        "check",
        'verdict("PASS", AC1=False); ok()',
        "protocol_error",
        "AC1 did not pass",
    ),
    "verdict leaves a criterion out": (
        "check",
        'verdict("PASS"); ok()',
        "protocol_error",
        "leaves out AC1",
    ),
    "no scorecard": (
        "check",
        'verdict("FAIL", AC1=False); (step / "scorecard.md").unlink(); ok()',
        "protocol_error",
        "scorecard.md is missing",
    ),
    "empty scorecard": (
        "check",
        'verdict("FAIL", AC1=False); write("scorecard.md", "  "); ok()',
        "protocol_error",
        "scorecard.md is empty",
    ),
    "verdict is a link": (
        "check",
        'verdict("FAIL", AC1=False); v = step / "verdict.json"; v.rename(step / "v"); '
        'v.symlink_to("v"); ok()',
        "protocol_error",
        "symbolic link",
    ),
    "patch does not apply": (
        "act",
        f'write("patch.diff", {ADD_DONE!r}.replace("new file mode 100644", "").replace('
        '"/dev/null", "a/done.txt").replace("-0,0", "-1")); ok()',
        "patch_failed",
        "does not apply",
    ),
    "patch is rubbish": ("act", 'write("patch.diff", "rubbish"); ok()', "patch_failed", "apply"),
    "patch touches .git": (
        "act",
        f'write("patch.diff", {ADD_DONE!r}.replace("done.txt", ".git/hooks/x")); ok()',
        "patch_refused",
        "git_folder",
    ),
    "patch leaves the repository": (
        "act",
        f'write("patch.diff", {ADD_DONE!r}.replace("done.txt", "../../out.txt")); ok()',
        "patch_refused",
        "path_parent",
    ),
    "edits a tracked file": (
        "plan",
        '(repo / "README.md").write_text("mine now"); ok()',
        "boundary_violation",
        "README.md",
    ),
    "deletes a tracked file": (
        "check",
        '(repo / "README.md").unlink(); verdict("PASS", AC1=True); ok()',
        "boundary_violation",
        "README.md",
    ),
    "edits although exec may not": (
        "do",
        '(repo / "README.md").write_text("mine now"); ok()',
        "boundary_violation",
        "README.md",
    ),
}


# What the sandbox does not even let an agent try.
FREE = {
    "leaves a pipe in the workspace",
    "leaves a pipe for git to read",
    "leaves settings without an end",
    "removes its own folder",
    "puts a link in place of its folder",
    "removes the workspace",
    "hides the workspace",
    "edits a tracked file",
    "deletes a tracked file",
    "edits although exec may not",
}


@pytest.mark.real
@pytest.mark.parametrize("name", CASES)
def test_the_step_fails_with_its_code_and_the_tree_stays(project, name):
    role, code, expected, words = CASES[name]
    project.settings('sandbox = "off"\n' if name in FREE else "")
    project.good_agents()
    project.agent(role, code)
    result = project.run_json()
    run_id = result["run_id"]
    assert (result["code"], result["status"]) == (1, "failed")
    event = project.event(run_id, "step_failed")
    assert event["data"]["code"] == expected
    assert words in event["message"]
    assert words in result["reason"]
    assert project.git("rev-parse", result["branch"]).strip() == result["base_commit"]
    step = project.root / project.show(run_id)["steps"][-1]["step_dir"]
    assert (step / "logs" / "stdout.txt").is_file()
    assert (step / "logs" / "stderr.txt").is_file()
    assert project.git("status", "--porcelain", "--", ":!.treadle") == ""


def test_a_program_that_is_missing_or_not_executable(project):
    project.good_agents()
    project.command("plan", ["no-such-program-here"])
    assert project.run_json()["reason_code"] == "agent_missing"
    script = project.folder / "plain.txt"
    script.write_text("#!/bin/sh\n")
    project.command("plan", [str(script)])
    result = project.run_json()
    assert result["reason_code"] == "agent_missing"
    assert "chmod +x" in result["reason"]


@pytest.mark.parametrize("key", ["timeout", pytest.param("idle_timeout", marks=pytest.mark.real)])
def test_a_hanging_agent_is_ended(project, key):
    project.good_agents()
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    project.agent("plan", ignore + "time.sleep(600)", **{key: 1})
    result = project.run_json()
    assert result["reason_code"] == key
    assert f"agents.plan.{key}" in result["reason"]


@pytest.mark.real
def test_a_flood_of_output_is_cut_off(project):
    project.good_agents()
    project.agent("plan", "while True: sys.stdout.write('x' * 65536)")
    result = project.run_json()
    assert result["reason_code"] == "output_limit"
    log = project.step_dir(result["run_id"], "001-plan") / "logs/stdout.txt"
    assert log.stat().st_size <= 64 << 20


def test_a_daemon_left_behind_is_dead_before_the_step_is_read(project):
    project.good_agents()
    project.agent(
        "plan",
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(1.5); (step / 'late.txt').write_text('x'); os._exit(0)\n"
        "    os._exit(0)\n"
        "ok()",
    )
    result = project.run_json()
    assert result["status"] == "passed"
    assert not (project.step_dir(result["run_id"], "001-plan") / "late.txt").exists()


def test_files_treadle_writes_itself_cannot_be_forged(project):
    project.good_agents()
    project.agent(
        "plan",
        'write("step.json", "{}"); write("output.json", "forged"); write("input.json", "{}")\n'
        'write("logs/stdout.txt", "forged"); write("files/checks/observed.json", "[]"); ok("true")',
    )
    run_id = project.run_json()["run_id"]
    step = project.step_dir(run_id, "001-plan")
    assert "forged" not in (step / "output.json").read_text()
    assert "forged" not in (step / "logs/stdout.txt").read_text()
    assert run_id in (step / "input.json").read_text()
    assert not (step / "files/checks").exists()


def test_what_belongs_to_another_role_is_ignored(project):
    project.good_agents()
    project.agent("do", f'write("patch.diff", {ADD_DONE!r}); verdict("PASS", AC1=True); ok()')
    result = project.run_json()
    assert result["status"] == "passed"
    assert project.event(result["run_id"], "verdict")["data"]["verdict"] == "FAIL"
    assert project.event_types(result["run_id"]).count("patch_applied") == 1
    assert "patch_ignored" in project.event_types(result["run_id"])


def test_new_files_in_the_workspace_are_set_aside(project):
    project.settings('sandbox = "off"\n')
    project.good_agents()
    project.agent("plan", '(repo / "new.txt").write_text("x"); ok()')
    result = project.run_json()
    assert result["status"] == "passed"
    assert "workspace_restored" in project.event_types(result["run_id"])
    diff = project.step_dir(result["run_id"], "001-plan") / "files/workspace-changes.diff"
    assert "new.txt" in diff.read_text()


def test_names_that_are_not_text_are_shown_escaped(project):
    project.settings('sandbox = "off"\n')
    project.good_agents()
    project.agent("plan", "open(os.fsencode(repo) + b'/bad-\\xff', 'w').close(); ok()")
    result = project.run_json()
    assert result["status"] == "passed"
    assert "bad-\\udcff" in project.event(result["run_id"], "workspace_restored")["message"]
