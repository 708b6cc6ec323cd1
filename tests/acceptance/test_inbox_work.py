"""The inbox at work through the real command: kills, rivals, follow-ups, notebooks, serving."""

import json
import os
import signal
import sys

import pytest

from tests.acceptance.messages import done, drop, log, logged_specs, routine, spec
from tests.builder import wait_for

HERE = "#!/bin/sh\n# Here\n# workspace: project\n"


def tree(project):
    """Return every file of the project but git's, with its bytes."""
    paths = [
        path for path in project.root.rglob("*") if path.is_file() and ".git/" not in str(path)
    ]
    return {path: path.read_bytes() for path in paths}


def slow(project):
    """Make a spec whose routine counts its starts and ends when it is let go."""
    routine(project, "slow", HERE + "echo x >> starts\nwhile ! [ -e go ]; do sleep 0.02; done\n")
    spec(project, "01-a.spec.md", "---\nroutine: slow\n---\n# A\n")


def starts(project):
    path = project.root / "starts"
    return len(path.read_text().split()) if path.exists() else 0


def test_after_a_kill_the_routine_runs_once_more_at_most_and_the_spec_is_listed_once(project):
    slow(project)
    process = project.start("process")
    wait_for(lambda: starts(project))
    process.kill()
    process.communicate()
    (project.root / "go").touch()
    assert project.treadle("process").code == 0
    assert starts(project) == 2
    assert (project.root / "specs" / "processed-spec.md").read_text() == "01-a.spec.md\n"
    assert len(project.treadle("runs", "list", "--json").json["runs"]) == 1
    assert project.treadle("process", "--json").json["messages"] == []


def test_of_two_at_once_one_is_refused_and_each_spec_runs_once(project):
    slow(project)
    first = project.start("process")
    wait_for(lambda: starts(project))
    second = project.treadle("process", "--json")
    assert (second.code, second.json["error"]["code"]) == (75, "locked")
    assert str(first.pid) in second.json["error"]["message"]
    assert second.json["error"]["fix"] == ["treadle runs list", "treadle process --wait"]
    (project.root / "go").touch()
    first.communicate()
    assert (first.returncode, starts(project)) == (0, 1)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_stops_the_routine_and_the_next_pass_goes_on(project, number, code):
    slow(project)
    process = project.start("process", "--json")
    wait_for(lambda: starts(project))
    process.send_signal(number)
    out, _ = process.communicate()
    assert (process.returncode, json.loads(out)["messages"][0]["status"]) == (code, "interrupted")
    (project.root / "go").touch()
    assert project.treadle("process", "--json").json["processed"] == ["01-a.spec.md"]
    assert starts(project) == 2


def test_a_signal_ends_a_router_that_thinks_and_the_choice_is_made_in_the_next_pass(inbox):
    ask, asked = inbox.root.parent / "router", inbox.root.parent / "asked"
    ask.write_text(f"#!/bin/sh\necho > {asked}\nexec sleep 60\n")
    ask.chmod(0o755)
    config = inbox.root / ".treadle" / "config.toml"
    config.write_text(f'sandbox = "off"\n[commands]\nrouter = ["{ask}"]\n')
    routine(inbox, "other", HERE)
    drop(inbox, "please fix.md", "x\n")
    process = inbox.start("process", "--json")
    wait_for(asked.exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 143
    ask.write_text("#!/bin/sh\necho other\n")
    (found,) = inbox.treadle("process", "--json").json["messages"]
    assert (found["routine"], found["status"]) == ("other", "done")


def test_a_dry_run_says_what_would_be_done_and_does_nothing(inbox):
    inbox.settings('default_routine = "log"\n[commands]\nrouter = ["touch", "asked"]\n')
    routine(inbox, "fix", "#!/bin/sh\n# Fix\n# when: broken\n")
    spec(inbox, "01-a.spec.md", "---\nroutine: gone\n---\n# A\n")
    spec(inbox, "02-b.spec.md", "It is broken\n")
    drop(inbox, "a.md", "---\nx: [\n---\n")
    before = tree(inbox)
    planned = inbox.treadle("process", "--dry-run", "--json").json["planned"]
    assert [(item["name"], item["would"], item["routine"]) for item in planned] == [
        ("a.md", "dead letter", None),
        ("01-a.spec.md", "dead letter", None),
        ("02-b.spec.md", "run", "fix"),
    ]
    assert tree(inbox) == before


def test_the_built_in_routine_turns_the_wheel_on_the_specs_criteria(project):
    project.good_agents()
    project.agent(
        "check",
        'verdict("PASS" if (repo / "done.txt").exists() else "FAIL", '
        'AC1=(repo / "done.txt").exists(), AC2=(repo / "done.txt").exists()); ok()',
    )
    text = (
        "# Make it\n\n## Acceptance Criteria\n\n- [ ] It is there: `$ test -f done.txt`\n- Good\n"
    )
    spec(project, "01-a.spec.md", text)
    found = project.treadle("process", "--json").json["messages"][0]
    assert (found["status"], found["routine"]) == ("done", "develop")
    criteria = project.show(found["run_id"])["criteria"]
    assert [(item["id"], item["text"]) for item in criteria] == [
        ("AC1", "It is there"),
        ("AC2", "Good"),
    ]
    assert (project.root / "done.txt").read_text() == "done\n"
    assert project.git("log", "-1", "--format=%s").strip() == "Make it"


def test_a_message_is_sent_with_routine_chain_and_fields(inbox):
    routine(
        inbox, "paint", '#!/bin/sh\n# Paint\ncolor="${color:-grey}"\necho "$color" >> log.txt\n'
    )
    words = ("--routine", "paint", "--chain", "house", "--field", "color=red")
    sent = inbox.treadle("send", "Paint it", *words, "--json").json
    assert (sent["message_id"], os.path.basename(sent["file"])) == ("house-0", "house-0.md")
    assert inbox.treadle("send", "Paint more", *words, "--json").json["message_id"] == "house-1"
    assert inbox.treadle("process").code == 0
    assert log(inbox) == ["red", "red"]


@pytest.mark.real
@pytest.mark.parametrize(
    "words", [(" ",), ("x", "--chain", "../y"), ("x", "--field", "id=3"), ("x", "--field", "y")]
)
def test_a_message_that_makes_no_sense_is_not_sent(inbox, words):
    assert inbox.treadle("send", *words, "--json").json["error"]["code"] == "usage"
    assert not (inbox.root / ".treadle" / "inbox").exists()


def test_what_a_routine_sends_follows_from_its_message(inbox):
    send = f'[ "$seq" != 0 ] || "{sys.executable}" -m treadle send "and then" --routine log'
    routine(inbox, "log", f'#!/bin/sh\n# Log\necho "$message_id" >> log.txt\n{send}\n')
    drop(inbox, "2025022514320000-0.md", "---\nroutine: log\n---\nfirst\n")
    assert inbox.treadle("process").code == 0
    assert log(inbox) == ["2025022514320000-0", "2025022514320000-1"]
    assert done(inbox, "2025022514320000-1.md").endswith("---\nand then\n")


def test_dead_letters_are_listed_shown_and_put_back(inbox):
    drop(inbox, "2025022514320000-0.md", "---\nroutine: gone\n---\nx\n")
    assert inbox.treadle("process").code == 1
    (letter,) = inbox.treadle("dead", "list", "--json").json["letters"]
    assert (letter["name"], letter["code"]) == ("2025022514320000-0.md", "routine_not_found")
    assert "there is no routine 'gone'" in inbox.treadle("dead", "show", "2025022514320000-0").out
    routine(inbox, "gone", "#!/bin/sh\n# Back\necho back >> log.txt\n")
    assert inbox.treadle("dead", "retry", letter["name"]).code == 0
    assert inbox.treadle("process").code == 0
    assert log(inbox) == ["back"]
    assert inbox.treadle("dead", "show", "none", "--json").json["error"]["code"] == "not_found"


@pytest.mark.real
def test_a_router_is_held_against_a_list_of_right_answers(inbox):
    routine(inbox, "fix", "#!/bin/sh\n# Fix\n# when: crash*\n")
    cases = inbox.folder / "cases.tsv"
    cases.write_text("it crashes\tfix\nwrite\tlog\nwrite\tfix\n")
    found = inbox.treadle("route", "--test", str(cases), "--json")
    assert (found.code, found.json["right"], found.json["total"]) == (1, 2, 3)
    told = inbox.treadle("route", "a crash", "--explain").out
    assert told.startswith("fix\nbecause: its `when:` line is found once in the text: crash")


@pytest.mark.real
def test_routines_are_listed_shown_and_checked(inbox):
    routine(inbox, "bad", "#!/bin/sh\n# Bad\nif\n")
    names = [item["name"] for item in inbox.treadle("routine", "list", "--json").json["routines"]]
    assert names == ["bad", "develop", "log"]
    assert inbox.treadle("routine", "show", "log", "--json").json["workspace"] == "own"
    found = inbox.treadle("routine", "check", "--json")
    assert found.code == 1
    assert [item["ok"] for item in found.json["routines"]] == [False, True, True]


@pytest.mark.real
def test_a_repository_that_nobody_trusts_runs_nothing(inbox, tmp_path):
    inbox.git("add", ".")
    inbox.git("commit", "-q", "-m", "Routines")
    inbox.git("clone", "-q", str(inbox.root), str(tmp_path / "clone"))
    (tmp_path / "clone" / "specs").mkdir(exist_ok=True)
    (tmp_path / "clone" / "specs" / "01-a.spec.md").write_text("# A\n")
    found = inbox.treadle("process", "--json", cwd=tmp_path / "clone")
    assert (found.code, found.json["error"]["code"]) == (3, "untrusted")


def write_notebook(project, *sources):
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "Count"},
        {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": "color = 'grey'"},
        *({"cell_type": "code", "metadata": {}, "source": source} for source in sources),
    ]
    for cell in cells[1:]:
        cell |= {"outputs": [], "execution_count": None}
    body = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (project.root / ".treadle" / "routines" / "nb.ipynb").write_text(json.dumps(body))
    project.settings("notebook_support = true\nmax_retries = 1\n")


@pytest.mark.real
def test_a_notebook_is_executed_with_its_parameters_and_kept(project):
    code = "import os; open('out.txt', 'w').write(color + os.environ['seq'])"
    write_notebook(project, code)
    project.treadle("send", "Count", "--routine", "nb", "--field", "color=red")
    found = project.treadle("process", "--json").json["messages"][0]
    assert found["status"] == "done"
    assert (project.root / "out.txt").read_text() == "red0"
    kept = project.step_dir(found["run_id"], "001-do") / "files" / "nb.ipynb"
    assert "".join(json.loads(kept.read_text())["cells"][2]["source"]) == "color = 'red'"


@pytest.mark.real
def test_a_notebook_that_fails_names_the_cell(project):
    write_notebook(project, "1 / 0")
    drop(project, "2025022514320000-0.md", "---\nroutine: nb\n---\nx\n")
    found = project.treadle("process", "--json").json["messages"][0]
    assert found["status"] == "dead"
    stderr = project.step_dir(found["run_id"], "001-do") / "logs" / "stderr.txt"
    assert "nb.ipynb: cell 3: ZeroDivisionError: division by zero" in stderr.read_text()


@pytest.mark.real
def test_serve_carries_out_what_is_dropped_and_ends_with_a_signal(inbox):
    process = inbox.start("serve", "--no-web", "--json")
    folder = inbox.root / ".treadle" / "inbox"
    wait_for(folder.is_dir)
    drop(inbox, "2025022514320000-0.md", "x\n")
    assert json.loads(process.stdout.readline())["processed"] == ["2025022514320000-0"]
    spec(inbox, "01-a.spec.md")
    assert json.loads(process.stdout.readline())["processed"] == ["01-a.spec.md"]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 143


@pytest.mark.real
def test_serve_sends_what_the_schedule_says(inbox):
    folder = inbox.root / ".treadle" / "cron"
    folder.mkdir()
    (folder / "often.md").write_text("---\ncron: '* * * * *'\nroutine: log\n---\nAgain\n")
    process = inbox.start("serve", "--no-web")
    wait_for((inbox.root / "log.txt").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert (folder / "often.md").exists()


@pytest.mark.real
def test_a_message_that_must_wait_says_why_and_for_how_many(inbox):
    routine(inbox, "log", "#!/bin/sh\n# Log\n# pre-check: echo no pump; exit 1\n")
    drop(inbox, "2025022514320000-0.md", "x\n")
    found = inbox.treadle("process")
    assert found.code == 3
    assert found.out == (
        "HELD 2025022514320000-0: routine log cannot work here:"
        " pre-check 'echo no pump; exit 1' exited with 1: no pump\n"
        "  next: treadle desk show Q-1\n0 done, 1 not\n"
    )


@pytest.mark.real
def test_a_pass_goes_on_when_nobody_looks_any_more(inbox):
    for name in ("01-a.spec.md", "02-b.spec.md", "03-c.spec.md"):
        spec(inbox, name)
    process = inbox.start("process")
    process.stderr.close()
    process.stdout.close()
    process.wait(120)
    assert logged_specs(inbox) == ["01-a.spec.md", "02-b.spec.md", "03-c.spec.md"]
