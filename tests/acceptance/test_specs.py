"""Specs without dead ends: where each stands, what goes on with it, and what it may ask for."""

import json
import shlex
import time

import pytest

from tests.acceptance.messages import drop, log, logged_specs, routine, spec


@pytest.fixture
def failing(inbox):
    """A project with a spec whose routine fails until the user allows it, each failure final."""
    allowed = inbox.folder / "allowed"
    routine(inbox, "log", f"#!/bin/sh\n# Log\ntest -e {allowed} || exit 7\necho ok >> log.txt\n")
    inbox.settings('default_routine = "log"\nmax_retries = 1\n')
    spec(inbox, "01-a.spec.md", "# A\n")
    inbox.allow = allowed.touch
    return inbox


def states(project):
    found = project.treadle("spec", "list", "--json").json["specs"]
    return {item["name"]: item["state"] for item in found}


def view(project, name):
    found = project.treadle("spec", "list", "--json").json["specs"]
    return next(item for item in found if item["name"] == name)


def follow(project, command):
    """Run a command as treadle printed it."""
    words = shlex.split(command)
    assert words[0] == "treadle", command
    assert "…" not in command
    return project.treadle(*words[1:])


def test_the_list_says_where_each_spec_stands_and_what_goes_on_with_it(failing):
    spec(failing, "02-empty.spec.md", "---\nroutine: log\n---\n \n")
    spec(failing, "03-c.spec.md", "# C\n")
    assert view(failing, "01-a.spec.md")["next"] == "treadle process 01-a.spec.md"
    failing.treadle("spec", "drop", "03")
    assert failing.treadle("process").code == 1
    assert states(failing) == {
        "01-a.spec.md": "dead",
        "02-empty.spec.md": "empty",
        "03-c.spec.md": "dropped",
    }
    found = view(failing, "01-a.spec.md")
    assert found["next"] == "treadle spec retry 01-a.spec.md"
    assert "exited with 7" in found["reason"]
    told = failing.treadle("spec", "list").out
    assert found["run_id"][-6:] in told
    assert "next: treadle spec retry 01-a.spec.md" in told
    shown = failing.treadle("spec", "show", "01").out
    assert "next: treadle spec retry 01-a.spec.md\nnext: treadle spec drop 01-a.spec.md\n" in shown


def test_a_dead_spec_goes_on_by_the_commands_that_treadle_names(failing):
    first = failing.treadle("process", "--json")
    assert first.code == 1
    failing.allow()
    again = follow(failing, first.json["messages"][0]["next"])
    assert again.code == 0
    assert states(failing)["01-a.spec.md"] == "waiting"
    assert follow(failing, view(failing, "01-a.spec.md")["next"]).code == 0
    assert states(failing) == {"01-a.spec.md": "done"}
    assert failing.treadle("dead", "list", "--json").json["letters"] == []
    assert failing.treadle("desk", "--json").json["items"] == []


def test_a_spec_is_shown_with_what_it_asks_for_and_its_runs(inbox):
    fields = "routine: log\npriority: 3\nbudgets:\n  max_minutes: 2\n"
    spec(inbox, "01-a.spec.md", f"---\n{fields}---\n# A\n\nDo it well.\n")
    inbox.treadle("process")
    found = inbox.treadle("spec", "show", "01-a", "--json").json
    assert (found["state"], found["priority"], found["budgets"]) == ("done", 3, {"max_minutes": 2})
    assert found["runs"] == [f"{found['run_id']} (passed)"]
    assert "Do it well." in inbox.treadle("spec", "show", "01-a.spec").out


def test_a_dropped_spec_is_not_taken_until_it_is_retried(inbox):
    spec(inbox, "01-a.spec.md")
    spec(inbox, "02-b.spec.md", "---\ndepends_on: 01-a\n---\n# B\n")
    assert inbox.treadle("spec", "drop", "01-a.spec.md", "--json").json["state"] == "dropped"
    found = inbox.treadle("process", "--json")
    assert found.code == 3
    assert found.json["processed"] == []
    told = view(inbox, "02-b.spec.md")
    assert told["reason"] == "it depends on 01-a.spec.md, which was dropped"
    assert follow(inbox, told["next"]).code == 0
    assert inbox.treadle("process", "--json").json["processed"] == ["01-a.spec.md", "02-b.spec.md"]
    assert inbox.treadle("desk", "--json").json["items"] == []


def test_a_dead_spec_can_be_dropped_and_asks_nothing_any_more(failing):
    failing.treadle("process")
    assert failing.treadle("spec", "drop", "01").code == 0
    assert failing.treadle("desk", "--json").json["items"] == []
    assert failing.treadle("dead", "list", "--json").json["letters"] == []
    assert failing.treadle("process", "--json").json["messages"] == []


def test_retrying_or_dropping_a_done_spec_says_what_to_do(inbox):
    spec(inbox, "01-a.spec.md")
    inbox.treadle("process")
    for verb in ("retry", "drop"):
        found = inbox.treadle("spec", verb, "01-a.spec.md", "--json")
        assert (found.code, found.json["error"]["code"]) == (3, "spec_done")
    for command in found.json["error"]["fix"]:
        assert follow(inbox, command).code == 0
    assert states(inbox) == {"01-a.spec.md": "waiting"}


@pytest.mark.real
def test_a_done_spec_without_a_landing_is_taken_out_of_the_list(inbox):
    spec(inbox, "01-a.spec.md")
    (inbox.root / "specs" / "processed-spec.md").write_text("01-a.spec.md\n01-axspec.md\n")
    assert inbox.treadle("spec", "retry", "01-a", "--json").json["state"] == "waiting"
    assert (inbox.root / "specs" / "processed-spec.md").read_text() == "01-axspec.md\n"


@pytest.mark.real
@pytest.mark.parametrize("word", ["02", "02-b", "02-b.spec", "02-b.spec.md", "specs/02-b.spec.md"])
def test_process_takes_only_the_specs_that_are_named(inbox, word):
    for name in ("01-a.spec.md", "02-b.spec.md", "03-c.spec.md"):
        spec(inbox, name)
    assert inbox.treadle("process", word, "--json").json["processed"] == ["02-b.spec.md"]
    assert logged_specs(inbox) == ["02-b.spec.md"]


@pytest.mark.real
@pytest.mark.parametrize(
    ("word", "code", "words"),
    [
        ("0", "spec_ambiguous", "'0' is the beginning of 01-a.spec.md, 02-b.spec.md"),
        ("01-z.spec.md", "not_found", "did you mean 01-a.spec.md?"),
    ],
)
def test_a_name_that_means_no_one_spec_is_refused(inbox, word, code, words):
    spec(inbox, "01-a.spec.md")
    spec(inbox, "02-b.spec.md")
    found = inbox.treadle("process", word, "--json").json["error"]
    assert found["code"] == code
    assert words in found["message"]
    assert follow(inbox, found["fix"][0]).code == 0


@pytest.mark.real
def test_a_dropped_spec_that_is_named_says_how_it_comes_back(inbox):
    spec(inbox, "01-a.spec.md")
    inbox.treadle("spec", "drop", "01")
    found = inbox.treadle("process", "01", "--json")
    assert (found.code, found.json["error"]["code"]) == (3, "spec_set_aside")
    assert follow(inbox, found.json["error"]["fix"][0]).code == 0
    assert inbox.treadle("process", "01", "--json").json["processed"] == ["01-a.spec.md"]


@pytest.mark.real
def test_specs_wait_for_those_they_depend_on_whatever_their_names(inbox):
    spec(inbox, "01-a.spec.md", "---\ndepends_on: [02-b, 03-c.spec.md]\n---\n# A\n")
    spec(inbox, "02-b.spec.md")
    spec(inbox, "03-c.spec.md")
    found = inbox.treadle("process", "--json")
    assert found.json["processed"] == ["02-b.spec.md", "03-c.spec.md", "01-a.spec.md"]


@pytest.mark.real
def test_a_spec_whose_dependency_died_waits_and_names_it(failing):
    spec(failing, "02-b.spec.md", "---\ndepends_on: 01-a.spec.md\n---\n# B\n")
    assert failing.treadle("process").code == 1
    found = view(failing, "02-b.spec.md")
    assert found["reason"] == "it waits for 01-a.spec.md (dead)"
    assert found["next"] == "treadle spec retry 01-a.spec.md"
    failing.allow()
    follow(failing, found["next"])
    assert failing.treadle("process", "--json").json["processed"] == [
        "01-a.spec.md",
        "02-b.spec.md",
    ]


@pytest.mark.real
def test_circular_and_unknown_dependencies_are_named_and_wait_on_the_desk(inbox):
    spec(inbox, "01-a.spec.md", "---\ndepends_on: 02-b\n---\n# A\n")
    spec(inbox, "02-b.spec.md", "---\ndepends_on: 01-a\n---\n# B\n")
    spec(inbox, "03-c.spec.md", "---\ndepends_on: 04-x\n---\n# C\n")
    spec(inbox, "04-d.spec.md", "# D\n")
    found = inbox.treadle("process", "--json")
    assert (found.code, found.json["processed"]) == (3, ["04-d.spec.md"])
    told = [item["summary"] for item in inbox.treadle("desk", "--json").json["items"]]
    assert any("in a circle: 01-a.spec.md → 02-b.spec.md → 01-a.spec.md" in text for text in told)
    missing = "03-c.spec.md: depends_on: there is no spec '04-x'; did you mean 04-d.spec.md?"
    assert missing in told
    assert len(told) == 3
    ways = {it["name"]: it["next"] for it in inbox.treadle("spec", "list", "--json").json["specs"]}
    assert ways["03-c.spec.md"] == "${EDITOR:-vi} specs/03-c.spec.md"
    for place in ("status", "desk"):
        lines = [line.split("next: ")[-1].strip() for line in inbox.treadle(place).out.splitlines()]
        assert "${EDITOR:-vi} specs/03-c.spec.md" in lines, place
    spec(inbox, "02-b.spec.md", "---\ndepends_on: 05-y\n---\n# B\n")
    spec(inbox, "03-c.spec.md", "---\ndepends_on: 01-a\n---\n# C\n")
    assert inbox.treadle("process").code == 3
    (item,) = inbox.treadle("desk", "--json").json["items"]
    assert item["summary"].startswith("02-b.spec.md: depends_on: there is no spec '05-y'")
    spec(inbox, "03-c.spec.md", "---\ndepends_on: 04-d\n---\n# C\n")
    spec(inbox, "02-b.spec.md", "# B\n")
    found = inbox.treadle("process", "--json").json
    assert found["processed"] == ["02-b.spec.md", "01-a.spec.md", "03-c.spec.md"]
    assert inbox.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("budgets:\n  max_cost: 3", "budgets: max_cost: no such budget; known: max_iterations"),
        ("budgets:\n  max_minutes: soon", "budgets: max_minutes must be a number above 0"),
        ("budgets: 3", "budgets must have a name and a value on each line below it"),
        ("agents:\n  doer: x", "agents: doer: the roles are plan, do, check, act"),
        ("agents:\n  do: nobody", "agents: do=nobody: no such agent"),
        ("priority: high", "priority must be a whole number"),
        ("land: sometimes", "land must be one of manual, auto"),
        ("depends_on: {a: b}", "depends_on must be the name of a spec, or a list of names"),
    ],
)
def test_a_field_that_makes_no_sense_is_named_and_its_spec_waits(inbox, fields, words):
    spec(inbox, "01-a.spec.md", f"---\n{fields}\n---\n# A\n")
    spec(inbox, "02-b.spec.md")
    found = inbox.treadle("process", "--json").json
    assert found["processed"] == ["02-b.spec.md"]
    assert found["messages"][0]["reason"].startswith(words)
    (item,) = inbox.treadle("desk", "--json").json["items"]
    assert words in item["summary"]


@pytest.mark.real
def test_a_near_miss_of_a_known_key_is_a_warning_naming_both(inbox):
    spec(inbox, "01-a.spec.md", "---\ndepend_on: x\nbudget: 3\ncolor: red\n---\n# A\n")
    text = '#!/bin/sh\n# Paint\ncolor="${color:-grey}"\necho "$color" >> log.txt\n'
    routine(inbox, "log", text)
    found = inbox.treadle("process")
    assert "01-a.spec.md: depend_on means nothing here; did you mean depends_on?" in found.err
    assert "01-a.spec.md: budget means nothing here; did you mean budgets?" in found.err
    assert log(inbox) == ["red"]
    assert "color" not in found.err


@pytest.mark.real
def test_a_spec_chooses_agents_budgets_order_and_landing(project):
    project.good_agents()
    project.agent("other", "(repo / 'who.txt').write_text('other'); ok()", edits=True)
    fields = "agents:\n  do: other\nbudgets:\n  max_iterations: 7\npriority: -1\nland: manual\n"
    spec(project, "09-z.spec.md", f"---\n{fields}---\n# Make it\n")
    project.good_agents()
    (item,) = project.treadle("process", "--json").json["messages"]
    assert item["status"] == "done"
    shown = project.show(item["run_id"])
    assert shown["landed"] is None
    assert next(step["agent"] for step in shown["steps"] if step["role"] == "do") == "other"
    text = (project.run_dir(item["run_id"]) / "treadle.md").read_text()
    assert "max_iterations = 7" in text


@pytest.mark.real
def test_specs_with_a_lower_priority_come_first(inbox):
    spec(inbox, "01-a.spec.md")
    spec(inbox, "02-b.spec.md", "---\npriority: -5\n---\n# B\n")
    spec(inbox, "03-c.spec.md", "---\npriority: 2\n---\n# C\n")
    found = inbox.treadle("process", "--json").json["processed"]
    assert found == ["02-b.spec.md", "01-a.spec.md", "03-c.spec.md"]


@pytest.mark.real
def test_an_edited_spec_starts_anew_with_its_new_text_and_the_old_run_is_superseded(failing):
    routine(
        failing,
        "log",
        '#!/bin/sh\n# Log\ngrep -q better "$spec_file" || exit 7\ncat "$spec_file" >> log.txt\n',
    )
    first = failing.treadle("process", "--json").json["messages"][0]
    spec(failing, "01-a.spec.md", "# A better one\n")
    found = failing.treadle("process")
    assert found.code == 0
    assert "01-a.spec.md was edited; it starts anew" in found.err
    assert log(failing) == ["# A better one"]
    assert failing.show(first["run_id"])["status"] == "failed"
    assert failing.treadle("desk", "--json").json["items"] == []
    assert failing.treadle("dead", "list", "--json").json["letters"] == []


@pytest.mark.real
def test_a_spec_edited_while_its_run_is_stopped_starts_anew(project):
    project.good_agents()
    project.agent("act", "ok()")
    spec(project, "01-a.spec.md", "---\nbudgets:\n  max_iterations: 1\n---\n# Make it\n")
    first = project.treadle("process", "--json").json["messages"][0]
    assert first["status"] == "stopped"
    (item,) = project.treadle("desk", "--json").json["items"]
    shown = f"treadle desk show {item['item_id']}"
    assert view(project, "01-a.spec.md")["next"] == first["next"] == shown
    assert follow(project, shown).code == 0
    assert project.treadle("process", "--json").json["messages"][0]["status"] == "stopped"
    project.good_agents()
    spec(project, "01-a.spec.md", "# Make it, really\n")
    again = project.treadle("process", "--json").json["messages"][0]
    assert (again["status"], again["run_id"] != first["run_id"]) == ("done", True)
    old = project.show(first["run_id"])
    assert (old["status"], old["reason_code"]) == ("failed", "superseded")
    (way,) = project.treadle("why", first["run_id"], "--json").json["next"]
    assert follow(project, way).code == 0
    assert project.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
def test_a_processed_spec_that_was_edited_is_a_warning_in_the_list(inbox):
    spec(inbox, "01-a.spec.md")
    inbox.treadle("process")
    spec(inbox, "01-a.spec.md", "# Other\n")
    assert "edited after it was processed" in inbox.treadle("process").err
    assert view(inbox, "01-a.spec.md")["reason"] == "edited after it was processed"
    assert len(log(inbox)) == 1


@pytest.mark.real
def test_after_an_undo_the_desk_asks_and_the_spec_is_not_taken_by_itself(inbox):
    spec(inbox, "01-a.spec.md")
    run = inbox.treadle("process", "--json").json["messages"][0]["run_id"]
    assert inbox.treadle("undo", run).code == 0
    assert states(inbox) == {"01-a.spec.md": "undone"}
    assert inbox.treadle("process", "--json").json["processed"] == []
    (item,) = inbox.treadle("desk", "--json").json["items"]
    by_label = {action["label"]: action["command"] for action in item["actions"]}
    assert by_label == {
        "again": "treadle spec retry 01-a.spec.md",
        "leave out": "treadle spec drop 01-a.spec.md",
    }
    assert follow(inbox, by_label["again"]).code == 0
    assert inbox.treadle("process", "--json").json["processed"] == ["01-a.spec.md"]
    assert inbox.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
def test_a_spec_left_out_after_an_undo_stays_out(inbox):
    spec(inbox, "01-a.spec.md")
    run = inbox.treadle("process", "--json").json["messages"][0]["run_id"]
    inbox.treadle("undo", run)
    assert inbox.treadle("spec", "drop", "01").code == 0
    assert inbox.treadle("desk", "--json").json["items"] == []
    assert inbox.treadle("process", "--json").json["messages"] == []


@pytest.mark.real
def test_after_a_reset_or_on_another_branch_a_spec_is_unprocessed_again(inbox):
    spec(inbox, "01-a.spec.md")
    inbox.git("add", ".")
    inbox.git("commit", "-q", "-m", "Specs")
    inbox.git("branch", "other")
    inbox.treadle("process")
    assert states(inbox) == {"01-a.spec.md": "done"}
    inbox.git("switch", "-q", "other")
    assert states(inbox) == {"01-a.spec.md": "waiting"}
    assert inbox.treadle("process", "--json").json["processed"] == ["01-a.spec.md"]
    inbox.git("switch", "-q", "main")
    assert states(inbox) == {"01-a.spec.md": "done"}
    inbox.git("reset", "-q", "--hard", "HEAD~1")
    assert states(inbox) == {"01-a.spec.md": "waiting"}
    assert inbox.treadle("process", "--json").json["processed"] == ["01-a.spec.md"]


@pytest.mark.real
def test_files_that_are_no_specs_by_name_are_named(inbox):
    for name in ("01-a.spec.md", "02-b.spec.md", "later.spec.md", "03-c.md", "04-d.txt"):
        spec(inbox, name)
    spec(inbox, "05-e.spec.markdown")
    spec(inbox, "README.md")
    (inbox.root / "specs" / "more").mkdir()
    spec(inbox, "more/06-f.spec.md")
    told = inbox.treadle("process", "01").err
    for words in (
        "03-c.md is not taken: the name of a spec ends with .spec.md",
        "mv specs/03-c.md specs/03-c.spec.md",
        "mv specs/04-d.txt specs/04-d.spec.md",
        "mv specs/05-e.spec.markdown specs/05-e.spec.md",
        "more/06-f.spec.md is not taken: it lies in a sub-folder",
        "mv specs/more/06-f.spec.md specs/",
        "later.spec.md has no number where others have one",
    ):
        assert words in told
        assert words in inbox.treadle("spec", "list").err
    assert "README.md is not taken" not in told


@pytest.mark.real
def test_an_empty_spec_waits_and_says_so(inbox):
    spec(inbox, "01-a.spec.md", "\n")
    found = inbox.treadle("process", "--json")
    assert (found.code, found.json["messages"][0]["status"]) == (0, "waiting")
    assert "it has no text yet" in found.json["messages"][0]["reason"]
    spec(inbox, "01-a.spec.md", "# A\n")
    assert inbox.treadle("process", "--json").json["processed"] == ["01-a.spec.md"]


@pytest.mark.real
def test_a_spec_sees_the_unlanded_work_of_what_it_depends_on(inbox):
    inbox.settings('default_routine = "log"\n[land]\nprocess = "manual"\n')
    routine(
        inbox, "log", '#!/bin/sh\n# Log\nls *.txt > "seen-$(basename $spec_file)"; touch $seq.txt\n'
    )
    routine(inbox, "one", "#!/bin/sh\n# One\necho 1 > one.txt\n")
    routine(inbox, "two", "#!/bin/sh\n# Two\necho 2 > two.txt\n")
    spec(inbox, "01-a.spec.md", "---\nroutine: one\n---\n# A\n")
    spec(inbox, "02-b.spec.md", "---\nroutine: two\n---\n# B\n")
    fields = "---\nroutine: log\ndepends_on: [01-a, 02-b]\n---\n"
    spec(inbox, "03-c.spec.md", f"{fields}# C\n")
    found = inbox.treadle("process", "--json").json["messages"]
    branch = inbox.show(found[2]["run_id"])["branch"]
    seen = inbox.git("show", f"{branch}:seen-03-c.spec.md").split()
    assert seen == ["one.txt", "two.txt"]


@pytest.mark.real
def test_a_pass_lands_on_the_branch_it_began_with(inbox):
    switch = f"git -C {inbox.root} switch -q other"
    text = f"#!/bin/sh\n# Log\n# workspace: project\n{switch}\n"
    routine(inbox, "switch", text)
    inbox.settings('sandbox = "off"\ndefault_routine = "log"\n')
    inbox.git("add", ".")
    inbox.git("commit", "-q", "-m", "Set up")
    inbox.git("branch", "other")
    spec(inbox, "01-a.spec.md")
    spec(inbox, "02-b.spec.md", "---\nroutine: switch\n---\n# B\n")
    spec(inbox, "03-c.spec.md")
    found = inbox.treadle("process")
    assert found.code == 0, found.err
    assert "other is checked out now; this pass still lands on main" in found.err
    assert inbox.git("branch", "--show-current").strip() == "other"
    landed = inbox.git("log", "main", "--format=%(trailers:key=Treadle-Spec,valueonly)").split()
    assert landed == ["03-c.spec.md", "01-a.spec.md"]
    assert "log.txt" not in inbox.git("ls-tree", "--name-only", "other").split()


@pytest.mark.real
def test_trouble_of_the_machine_holds_the_message_and_uses_no_attempt_up(inbox):
    inbox.settings(
        'default_routine = "log"\nmax_retries = 1\n[workspace]\nsetup = ["sh", "make-it"]\n'
    )
    spec(inbox, "01-a.spec.md")
    for _ in range(3):
        found = inbox.treadle("process", "--json")
        (message,) = found.json["messages"]
        assert (found.code, message["status"]) == (3, "held")
        assert "workspace.setup" in message["reason"]
        (item,) = inbox.treadle("desk", "--json").json["items"]
        assert message["next"] == f"treadle desk show {item['item_id']}"
        assert (item["kind"], item["subject"]["id"]) == ("held", "01-a.spec.md")
    inbox.settings('default_routine = "log"\nmax_retries = 1\n')
    assert follow(inbox, item["actions"][0]["command"]).code == 0
    assert inbox.treadle("desk", "--json").json["items"] == []
    assert logged_specs(inbox) == ["01-a.spec.md"]


@pytest.mark.real
def test_a_missing_program_of_an_agent_uses_no_attempt_up(project):
    project.good_agents()
    project.command("plan", ["no-such-program"])
    project.settings("max_retries = 1\n")
    spec(project, "01-a.spec.md", "# Make it\n")
    for _ in range(2):
        (message,) = project.treadle("process", "--json").json["messages"]
        assert message["status"] in ("held", "stopped")
    project.good_agents()
    project.settings("max_retries = 1\n")
    assert follow(project, message["next"]).code == 0
    assert project.treadle("process").code == 0
    assert states(project) == {"01-a.spec.md": "done"}


@pytest.mark.real
def test_between_attempts_there_is_a_pause(inbox):
    routine(inbox, "log", "#!/bin/sh\n# Fail\nexit 7\n")
    inbox.settings('default_routine = "log"\nmax_retries = 3\n')
    spec(inbox, "01-a.spec.md")
    told = inbox.treadle("process", env={"TREADLE_RETRY_WAIT": "0.1"}).err
    assert "attempt 1 failed; the next one comes in 0.1 s" in told
    assert "attempt 2 failed; the next one comes in 0.6 s" in told
    assert "attempt 3 failed" not in told


@pytest.mark.real
def test_serve_takes_a_spec_once_it_has_text_and_is_still(inbox):
    process = inbox.start("serve", "--no-web", "--json")
    path = inbox.root / "specs" / "01-a.spec.md"
    path.write_text("")
    drop(inbox, "2025022514320000-0.md", "x\n")
    first = json.loads(process.stdout.readline())
    assert [item["status"] for item in first["messages"] if item["name"] != path.name] == ["done"]
    path.write_text("# A\n")
    written = time.time()
    while "01-a.spec.md" not in json.loads(process.stdout.readline())["processed"]:
        pass
    assert time.time() - written >= 2
    process.terminate()
    process.communicate(timeout=120)


@pytest.mark.real
def test_independent_specs_work_side_by_side_and_land_in_order(inbox):
    here = inbox.folder / "here"
    here.mkdir()
    # The first ends after the second, and neither ends before both have begun.
    meet = f'touch {here}/$n; while [ "$(ls {here} | wc -l)" -lt 2 ]; do sleep 0.02; done'
    late = f"if [ $n = 1 ]; then while ! [ -e {here}/2.done ]; do sleep 0.02; done; fi"
    ends = f"touch {here}/$n.done\necho $n > $n.txt\n"
    name = "n=$(basename $spec_file | cut -c2)"
    routine(inbox, "log", f"#!/bin/sh\n# Meet\n{name}\n{meet}\n{late}\n{ends}")
    inbox.settings(f'default_routine = "log"\n[routine]\nwritable = ["{here}"]\n')
    spec(inbox, "01-a.spec.md")
    spec(inbox, "02-b.spec.md")
    text = "---\ndepends_on: [01-a, 02-b]\n---\n# C\n"
    spec(inbox, "03-c.spec.md", text)
    found = inbox.treadle("process", "--parallel", "2", "--json")
    assert (found.code, found.json["processed"]) == (
        0,
        ["01-a.spec.md", "02-b.spec.md", "03-c.spec.md"],
    )
    trailers = "--format=%(trailers:key=Treadle-Spec,valueonly)"
    landed = inbox.git("log", "--reverse", trailers).split()
    assert landed == ["01-a.spec.md", "02-b.spec.md", "03-c.spec.md"]
    first, second, third = (inbox.show(item["run_id"]) for item in found.json["messages"])
    assert first["base_commit"] == second["base_commit"] != third["base_commit"]
    assert (inbox.root / "specs" / "processed-spec.md").read_text().split() == landed
    assert inbox.treadle("process", "--parallel", "0", "--json").json["error"]["code"] == "usage"


@pytest.mark.real
def test_a_failure_side_by_side_holds_up_no_other_spec(inbox):
    routine(inbox, "bad", "#!/bin/sh\n# Bad\nexit 7\n")
    inbox.settings('default_routine = "log"\nmax_retries = 1\n')
    routine(inbox, "here", "#!/bin/sh\n# Here\n# workspace: project\necho x > here.txt\n")
    spec(inbox, "01-a.spec.md", "---\nroutine: bad\n---\n# A\n")
    spec(inbox, "02-b.spec.md", "---\nroutine: here\n---\n# B\n")
    spec(inbox, "03-c.spec.md")
    spec(inbox, "04-d.spec.md", "---\ndepends_on: 01-a\n---\n# D\n")
    found = inbox.treadle("process", "--parallel", "3", "--json")
    assert found.code == 1
    assert {item["name"]: item["status"] for item in found.json["messages"]} == {
        "01-a.spec.md": "dead",
        "02-b.spec.md": "done",
        "03-c.spec.md": "done",
        "04-d.spec.md": "waiting",
    }


@pytest.mark.real
@pytest.mark.parametrize("verb", ["drop", "retry"])
def test_a_kill_while_a_spec_is_set_aside_or_taken_up_loses_and_doubles_nothing(failing, verb):
    failing.treadle("process")
    failing.allow()
    killed = failing.treadle("spec", verb, "01", env={"TREADLE_DIE_AT": "after_spec_row"})
    assert killed.code == -9
    assert states(failing) == {"01-a.spec.md": "dropped" if verb == "drop" else "waiting"}
    found = failing.treadle("process", "--json").json["processed"]
    assert found == ([] if verb == "drop" else ["01-a.spec.md"])
    assert failing.treadle("spec", "retry", "01").code == (0 if verb == "drop" else 3)
    failing.treadle("process")
    assert len(log(failing)) == 1
    assert states(failing) == {"01-a.spec.md": "done"}


@pytest.mark.real
def test_a_spec_can_land_on_a_branch_of_its_own(inbox):
    spec(inbox, "01-a.spec.md", "---\nland: branch\n---\n# A\n")
    before = inbox.git("rev-parse", "main")
    (found,) = inbox.treadle("process", "--json").json["messages"]
    assert (found["status"], inbox.git("rev-parse", "main")) == ("done", before)
    assert inbox.show(found["run_id"])["landed"]
    assert not (inbox.root / "specs" / "processed-spec.md").exists()
    (again,) = inbox.treadle("process", "--json").json["messages"]
    assert (again["status"], len(inbox.treadle("runs", "list", "--json").json["runs"])) == (
        "waiting",
        1,
    )
    assert states(inbox) == {"01-a.spec.md": "unmerged"}
    assert again["next"] == f"treadle land {found['run_id']}"
    inbox.git("add", "specs")
    inbox.git("commit", "-q", "-m", "The spec")
    inbox.git("merge", "-q", "treadle/a")
    assert states(inbox) == {"01-a.spec.md": "done"}
    assert (inbox.root / "specs" / "processed-spec.md").read_text() == "01-a.spec.md\n"


@pytest.mark.real
def test_many_ready_specs_are_one_command_away(inbox):
    for number in range(1, 6):
        spec(inbox, f"0{number}-a.spec.md")
    told = inbox.treadle("spec", "list").out
    assert [line for line in told.splitlines() if "next" in line] == ["next: treadle process"]


@pytest.mark.real
def test_an_answer_about_a_spec_takes_it_to_its_landing(project):
    agent = '(repo / "ci").mkdir(exist_ok=True)\n(repo / "ci/go.txt").write_text("go")\nok()'
    project.agent("do", agent, edits=True)
    project.settings('[policy]\nask = ["ci/**"]\n')
    asked = "# Go\n\n## Acceptance Criteria\n- go `$ test -f ci/go.txt`\n"
    spec(project, "01-go.spec.md", asked)
    assert project.treadle("process").code == 4
    (item,) = project.treadle("desk", "--json").json["items"]
    answered = project.treadle("answer", item["item_id"], "approve")
    assert answered.code == 0, answered.err
    assert (project.root / "ci/go.txt").read_text() == "go"
    assert "01-go.spec.md" in project.git("show", "HEAD:specs/processed-spec.md")
    (listed,) = project.treadle("spec", "list", "--json").json["specs"]
    assert listed["state"] == "done"
    assert project.treadle("process").out == "nothing to do\n"


def test_a_dry_run_shows_only_the_specs_that_are_named(inbox):
    for name in ("01-a.spec.md", "02-b.spec.md"):
        spec(inbox, name)
    found = inbox.treadle("process", "--dry-run", "02-b", "--json").json["planned"]
    assert [item["name"] for item in found] == ["02-b.spec.md"]
    wrong = inbox.treadle("process", "--dry-run", "03-c", "--json")
    assert (wrong.code, "03-c" in wrong.json["error"]["message"]) == (1, True)
