"""Good work is not thrown away over form: what a tool did counts, whatever it says of it."""

import pytest

from tests.acceptance.test_agent import GOOD, codex, events
from tests.builder import git

CHATTY = f"cat > /dev/null; echo hello > done.txt\n{events('All done, boss!')}"
NAMED = GOOD.replace("}", ', "files": ["notes.md"]}')


@pytest.fixture
def run(project):
    """Return a function that lets a shell script be codex in do and act, with builtin checks."""

    def drive(script, *words):
        env = codex(project, script)
        project.config["plan"] = project.config["check"] = 'type = "builtin"'
        project.save()
        return project.run_json(*words, env=env)

    return drive


def test_edits_count_although_the_answer_cannot_be_read(project, run):
    done = run(CHATTY, "--verify", "AC1=grep hello done.txt")
    shown = project.show(done["run_id"])
    step = shown["steps"][1]
    assert (done["status"], step["status"], step["error_code"]) == (
        *("passed", "fail", "protocol_error"),
    )
    assert "it said: All done, boss!" in step["summary"]
    assert git(project.root, "show", f"{done['branch']}:done.txt") == "hello\n"
    why = project.treadle("why", done["run_id"]).out
    assert "002-do/files/workspace.diff" in why
    assert [item["role"] for item in shown["steps"]] == ["plan", "do", "check"]


def test_after_a_kill_it_goes_on_with_the_check(project, run):
    project.env["TREADLE_DIE_AT"] = "after_transaction:2"
    with pytest.raises(ValueError, match="Expecting value"):  # it was killed before it could tell
        run(CHATTY, "--verify", "AC1=grep hello done.txt")
    del project.env["TREADLE_DIE_AT"]
    row = project.only_run()
    assert project.treadle("run", "--resume", row["run_id"]).code == 0
    roles = [item["role"] for item in project.show(row["run_id"])["steps"]]
    assert roles == ["plan", "do", "check"]


def test_a_change_that_is_refused_is_not_saved_by_its_form(project, run):
    script = f"cat > /dev/null; ln -s /etc/passwd done.txt\n{events('Done.')}"
    done = run(script, "--verify", "AC1=grep hello done.txt")
    assert (done["status"], project.show(done["run_id"])["reason_code"]) == (
        *("failed", "patch_refused"),
    )


def test_a_file_that_is_only_named_is_an_event(project, run):
    script = f"cat > /dev/null; echo hello > done.txt\n{events(NAMED)}"
    done = run(script, "--verify", "AC1=grep hello done.txt")
    assert done["status"] == "passed"
    types = project.event_types(done["run_id"])
    assert ("file_not_left" in types, "answer_repaired" in types) == (True, False)
    assert "named, but not in the step folder: notes.md" in project.treadle("why", "last").out


def test_a_prompt_that_is_too_long_is_shortened_once_and_that_is_said(project, run):
    (project.root / "AGENTS.md").write_text("A long word of advice.\n" * 1000)
    git(project.root, "add", "AGENTS.md")
    git(project.root, "commit", "-q", "-m", "Advice")
    limit = "the maximum context length is exceeded"
    refuse = f'echo call >> ../calls; [ $(wc -c) -lt $MOST ] || {{ echo "{limit}" >&2; exit 1; }}'
    script = f"{refuse}\necho hello > done.txt\n{events(GOOD)}"
    done = run(script.replace("$MOST", "20000"), "--verify", "AC1=grep hello done.txt")
    assert done["status"] == "passed"
    told = project.event(done["run_id"], "history_shortened")["message"]
    assert told.startswith("asked again with ")
    assert "asked again with" in project.treadle("why", done["run_id"]).out
    failed = run(script.replace("$MOST", "10"), "--verify", "AC1=grep never done.txt")
    assert (failed["status"], failed["reason_code"]) == ("failed", "context_too_long")
    assert project.event_types(failed["run_id"]).count("attempt_failed") == 1
