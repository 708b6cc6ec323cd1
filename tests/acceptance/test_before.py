"""What treadle sees before any work: checks that pass already, and checks that cannot run."""

import pytest


@pytest.fixture
def asked(project):
    """A project whose agents leave a mark outside when they are asked, and make done.txt."""
    log = project.folder / "asked.txt"
    note = f'open({str(log)!r}, "a").write(role + "\\n")\n'
    project.agent("plan", note + "ok()", writable=[str(project.folder)])
    project.agent(
        "do",
        note + '(repo / "done.txt").write_text("done"); ok()',
        edits=True,
        writable=[str(project.folder)],
    )
    project.last = lambda: project.treadle("runs", "list", "--json").json["runs"][0]["run_id"]
    project.asked = lambda: log.read_text().split() if log.exists() else []
    return project


def desk(project):
    return project.treadle("desk", "--json").json["items"]


def test_nobody_is_asked_when_every_criterion_already_passes(asked):
    found = asked.run("--verify", "AC1=test -f README.md")
    assert found.code == 0
    assert asked.asked() == []
    assert "every criterion already passed before any work, so no agent was asked" in found.out
    shown = asked.show(asked.last())
    assert (shown["status"], shown["reason_code"]) == ("passed", "already_true")
    assert shown["head_commit"] == shown["base_commit"]
    assert shown["criteria"][0]["outcome"] == "holds"
    assert desk(asked) == []
    assert "already_true" in asked.treadle("why", asked.last(), "--json").out


def test_anyway_asks_all_the_same(asked):
    found = asked.run("--verify", "AC1=test -f README.md", "--anyway", "--json").json
    assert asked.asked() == ["plan", "do"]
    assert (found["status"], found["reason_code"]) == ("passed", "passed")


def test_checks_before_turns_the_look_off(asked):
    asked.settings("[checks]\nbefore = false\n")
    found = asked.run("--verify", "AC1=test -f README.md", "--json").json
    assert asked.asked() == ["plan", "do"]
    assert found["reason_code"] == "passed"
    assert "check_before" not in asked.event_types(found["run_id"])


@pytest.mark.real
def test_a_task_that_is_already_true_is_done(asked):
    asked.treadle("task", "add", "Read me", "--id", "T-1", "--verify", "AC1=test -f README.md")
    assert asked.treadle("run", "T-1").code == 0
    assert asked.treadle("task", "show", "T-1", "--json").json["lane"] == "done"
    assert asked.asked() == []


@pytest.mark.real
def test_a_spec_that_is_already_true_is_done_and_listed(asked):
    spec = "# There is a README\n\n## Acceptance Criteria\n\n- it is there: `$ test -f README.md`\n"
    (asked.root / "specs").mkdir(exist_ok=True)
    (asked.root / "specs/01-readme.spec.md").write_text(spec)
    asked.git("add", "specs")
    asked.git("commit", "-qm", "a spec")
    assert asked.treadle("process").code == 0
    assert asked.asked() == []
    assert "01-readme" in (asked.root / "specs/processed-spec.md").read_text()
    assert "nothing" in asked.treadle("process").out


@pytest.mark.real
def test_one_of_several_that_passes_is_said_to_prove_nothing_yet(asked):
    checks = [
        "--ac",
        "two",
        "--verify",
        "AC1=test -f done.txt",
        "--verify",
        "AC2=test -f README.md",
    ]
    found = asked.run(*checks)
    assert found.code == 0
    assert asked.asked() == ["plan", "do"]
    assert "AC2 already passes before any work: it proves nothing yet" in found.err
    for command in ("why", "report", "runs show"):
        assert "proves nothing yet" in asked.treadle(*command.split(), asked.last()).out, command


BROKEN = {
    "a program that is not installed": ("no-such-program --check", "no-such-program: "),
    "a program deep in a line": ("test -f done.txt || no-such-program", "no-such-program: "),
    "an absolute path to nothing": ("/no/such/program", "/no/such/program"),
    "a file that cannot be executed": ("./README.md", "exited with 126"),
    "a missing interpreter": ("./odd.sh", "exited with 12"),
    "a syntax error": ("if test -f done.txt; then", "yntax error"),
    "an open quote": ("test -f 'done.txt", "nterminated quoted string"),
}


@pytest.mark.real
@pytest.mark.parametrize("name", BROKEN)
def test_a_check_that_cannot_run_stops_before_anybody_is_asked(asked, name):
    command, said = BROKEN[name]
    script = asked.root / "odd.sh"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    asked.git("add", "odd.sh")
    asked.git("commit", "-qm", "odd")
    found = asked.run("--verify", f"AC1={command}")
    assert found.code == 3
    assert asked.asked() == []
    assert said in found.out
    shown = asked.show(asked.last())
    assert (shown["status"], shown["reason_code"]) == ("stopped", "check_broken")
    assert shown["usage"]["cost_usd"] == 0
    (item,) = desk(asked)
    assert said in item["summary"]
    assert f"treadle run --resume {asked.last()}" in item["fix"]


@pytest.mark.real
@pytest.mark.parametrize("command", ["sh test.sh", "./test.sh", "sh tools/test.sh && true"])
def test_a_file_of_the_project_that_is_not_there_yet_merely_fails(asked, command):
    asked.agent(
        "do",
        '(repo / "tools").mkdir(); [p.write_text("#!/bin/sh\\n") and p.chmod(0o755)'
        ' for p in (repo / "test.sh", repo / "tools/test.sh")]; ok()',
        edits=True,
    )
    words = ("--verify", f"AC1={command}", "--budget", "max_risky_files=9", "--json")
    found = asked.run(*words).json
    assert found["reason_code"] != "check_broken", found
    assert "do" in [step["role"] for step in asked.show(found["run_id"])["steps"]]


@pytest.mark.real
def test_a_mended_check_goes_on_with_the_printed_command(asked, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    env = {"PATH": f"{tools}:{asked.environment()['PATH']}"}
    first = asked.run("--verify", "AC1=mytool done.txt", env=env)
    command = next(line for line in first.out.splitlines() if "next:" in line).split("treadle ")[1]
    (tools / "mytool").write_text('#!/bin/sh\ntest -f "$1"\n')
    (tools / "mytool").chmod(0o755)
    again = asked.treadle(*command.split(), env=env)
    assert again.code == 0, again.err
    assert asked.asked() == ["plan", "do"]
    assert desk(asked) == []


@pytest.mark.real
def test_anyway_goes_on_with_a_check_that_cannot_run(asked):
    asked.run("--verify", "AC1=no-such-program")
    command = f"run --resume {asked.last()} --anyway --budget max_iterations=1"
    asked.treadle(*command.split())
    assert asked.asked() == ["plan", "do"]


@pytest.mark.real
def test_a_task_with_a_broken_check_can_be_run_again(asked):
    asked.treadle("task", "add", "x", "--id", "T-1", "--verify", "AC1=no-such-program")
    asked.treadle("run", "T-1")
    (item,) = desk(asked)
    assert "treadle run T-1" in item["fix"]
    assert asked.treadle("run", "T-1").code == 3


POINTS = ["after_stage", "after_rename", "after_transaction", "before_end", "before_release"]


@pytest.mark.real
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_loses_and_doubles_nothing_of_a_run_that_had_nothing_to_do(asked, point):
    asked.treadle("task", "add", "Read me", "--id", "T-1", "--verify", "AC1=test -f README.md")
    assert asked.treadle("run", "T-1", env={"TREADLE_DIE_AT": point}).code == -9
    asked.treadle("doctor", "--repair")
    if asked.only_run()["status"] != "passed":
        assert asked.treadle("run", "--resume", asked.last()).code == 0
    assert asked.treadle("task", "show", "T-1", "--json").json["lane"] == "done"
    assert asked.event_types(asked.last()).count("run_passed") == 1
    assert (asked.asked(), desk(asked)) == ([], [])


@pytest.mark.real
@pytest.mark.parametrize("point", POINTS[1:])
def test_a_kill_loses_no_question_about_a_check_that_cannot_run(asked, point):
    asked.treadle("task", "add", "x", "--id", "T-1", "--verify", "AC1=no-such-program")
    assert asked.treadle("run", "T-1", env={"TREADLE_DIE_AT": point}).code == -9
    for _ in range(2):
        asked.treadle("doctor", "--repair")
    shown = asked.show(asked.last())
    assert (shown["status"], shown["reason_code"]) == ("stopped", "check_broken")
    assert [item["run_id"] for item in desk(asked)] == [asked.last()]
    assert asked.asked() == []


@pytest.mark.real
def test_a_spec_whose_check_cannot_run_waits_with_a_command_that_goes_on(asked, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    env = {"PATH": f"{tools}:{asked.environment()['PATH']}"}
    spec = "# Make done\n\n## Acceptance Criteria\n\n- it is there: `$ mytool done.txt`\n"
    (asked.root / "specs").mkdir(exist_ok=True)
    (asked.root / "specs/01-done.spec.md").write_text(spec)
    asked.git("add", "specs")
    asked.git("commit", "-qm", "a spec")
    first = asked.treadle("process", env=env)
    assert first.code != 0
    assert "mytool" in first.out
    assert asked.asked() == []
    (item,) = desk(asked)
    (tools / "mytool").write_text('#!/bin/sh\ntest -f "$1"\n')
    (tools / "mytool").chmod(0o755)
    command = next(it["command"] for it in item["actions"] if it["command"])
    again = asked.treadle(*command.split()[1:], env=env)
    assert again.code == 0, (command, again)
    asked.treadle("process", env=env)
    assert "01-done" in (asked.root / "specs/processed-spec.md").read_text()
    assert asked.asked() == ["plan", "do"]
    assert desk(asked) == []


@pytest.mark.real
def test_anyway_for_a_run_of_the_fleet_says_where_it_works(asked):
    found = asked.treadle("run", "--resume", "last", "--fleet", "--anyway")
    assert found.code == 2
    assert "--anyway does not go with --resume and --fleet" in found.err
