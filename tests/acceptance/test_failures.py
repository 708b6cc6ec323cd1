"""What a run says when it fails: the command, its last words, and where the rest of them is."""

import pytest

NOISY = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo line $i; done; echo at the end; false"
LAST = ["line 27", "line 40", "at the end"]


@pytest.fixture
def idle(project):
    project.agent("do", "ok()", edits=True)
    return project


def shows(text, command, lines, log):
    """Tell whether a text shows a command, the end of its output and its log, each in a line."""
    rows = [row.strip() for row in text.splitlines()]
    assert any(row.endswith(command) for row in rows), text
    for line in lines:
        assert f"| {line}" in rows, text
    assert "| line 26" not in rows
    (path,) = [row.removeprefix("log: ") for row in rows if row.startswith("log: ")]
    assert path == str(log)
    assert log.is_file()


def test_the_last_lines_of_a_run_and_why_show_what_failed(idle):
    found = idle.run("--verify", f"AC1={NOISY}", "--budget", "max_iterations=1")
    run = idle.only_run()["run_id"]
    log = idle.step_dir(run, "003-check") / "files/checks/AC1.txt"
    shows(found.out, NOISY, LAST, log)
    shows(idle.treadle("why", run).out, NOISY, LAST, log)
    (told,) = idle.treadle("why", run, "--json").json["commands"]
    assert (told["name"], told["log"], len(told["lines"])) == ("AC1", str(log), 15)


def test_a_passed_run_shows_no_failed_command(idle):
    idle.agent("do", '(repo / "done.txt").write_text("x"); ok()', edits=True)
    found = idle.run("--verify", "AC1=test -f done.txt")
    assert (found.code, "failed:" in found.out) == (0, False)


def test_a_check_that_cannot_run_shows_the_words_of_the_shell(idle):
    found = idle.run("--verify", "AC1=no-such-program", "--ac", "two", "--verify", "AC2=false")
    run = idle.only_run()["run_id"]
    log = idle.step_dir(run, "001-plan") / "files/checks/before/AC1.txt"
    assert "AC1 failed: no-such-program" in found.out
    assert "AC2 failed" not in found.out
    assert f"log: {log}" in found.out
    assert "not found" in idle.treadle("why", run).out


@pytest.mark.real
def test_a_failed_setup_shows_its_last_lines_its_log_and_what_was_denied(idle, tmp_path):
    secret = tmp_path / "home-file"
    command = f"{NOISY.removesuffix('; false')} >&2; echo x > {secret}; exit 4"
    idle.settings(f'[workspace]\nsetup = ["sh", "-c", {command!r}]\n')
    found = idle.run("--verify", "AC1=false")
    run = idle.only_run()["run_id"]
    log = idle.run_dir(run) / "setup/stderr.txt"
    for text in (found.out, idle.treadle("why", run).out):
        assert "workspace.setup failed: sh -c" in text
        assert "| at the end" in text
        assert f"log: {log}" in text
        if idle.treadle("doctor", "--json").json["sandbox"]["tier"] != "0":
            assert "checks.writable" in text
            assert "from the next run on" in text
    assert "line 20" not in found.out


@pytest.mark.real
def test_a_setup_that_fails_in_the_clean_checkout_shows_what_it_said(idle):
    idle.agent("do", '(repo / "pyproject.toml").write_text("x"); ok()', edits=True)
    script = "if test -f pyproject.toml; then echo setup said no; exit 9; fi"
    idle.settings(f'[workspace]\nsetup = ["sh", "-c", "{script}"]\n')
    found = idle.run("--verify", "AC1=test -f pyproject.toml", "--budget", "max_iterations=1")
    assert "not run: workspace.setup exited with 9" in found.out
    assert "| setup said no" in found.out


@pytest.mark.real
def test_what_fails_with_the_bases_own_tests_is_shown_too(idle):
    (idle.root / "test.sh").write_text("echo the real test; test -f done.txt\n")
    idle.git("add", "test.sh")
    idle.git("commit", "-qm", "a test")
    idle.agent("do", '(repo / "test.sh").write_text("true\\n"); ok()', edits=True)
    found = idle.run("--verify", "AC1=sh test.sh")
    assert found.code == 3
    assert "AC1 failed: sh test.sh" in found.out
    assert "with the protected files as the base has them" in found.out
    assert "| the real test" in found.out
