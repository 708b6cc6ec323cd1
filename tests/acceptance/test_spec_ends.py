"""Specs that look finished, held or misnamed: the commands that treadle names lead on."""

import os
import re
import shlex
import signal
import subprocess

import pytest

from tests.acceptance.messages import routine, spec
from tests.acceptance.site import Site
from tests.builder import git, wait_for
from treadle.layout import Layout
from treadle.store.store import Store

NAME = "01-a.spec.md"
APPEND = "#!/bin/sh\n# Append\ncat shared.txt > new; echo run >> new; mv new shared.txt\n"
UNCHECKED = "# A\n\n## Acceptance Criteria\n- done is there\n"


def follow(project, commands):
    """Run commands as treadle printed them."""
    for command in commands:
        done = project.treadle(*shlex.split(command)[1:])
        assert done.code == 0, (command, done)


def newest(project):
    return project.treadle("runs", "list", "--json").json["runs"][0]["run_id"]


def tracker(project):
    return (project.root / "specs" / "processed-spec.md").read_text()


@pytest.fixture
def conflict(project):
    """A spec that is listed as done, and whose run cannot land."""
    site = Site(project)
    routine(project, "append", APPEND)
    project.settings('default_routine = "append"\n[land]\nprocess = "manual"\n')
    site.commit("shared.txt", "base\n")
    git(site.root, "add", ".")
    git(site.root, "commit", "-q", "-m", "Routine")
    spec(project, NAME)
    assert project.treadle("process", "--json").json["processed"] == [NAME]
    site.commit("shared.txt", "mine\n")
    return project


def test_the_conflict_of_a_listed_spec_leads_to_its_landing(conflict):
    first = newest(conflict)
    fix = conflict.treadle("land", first, "--json").json["error"]["fix"]
    assert fix == conflict.treadle("rebase", first, "--json").json["error"]["fix"]
    assert fix == [f"treadle spec retry {NAME}", "treadle process"]
    (waits,) = conflict.treadle("status", "--json").json["unlanded"]
    assert waits["next"] == fix[0]
    follow(conflict, fix)
    (view,) = conflict.treadle("spec", "list", "--json").json["specs"]
    (waits,) = conflict.treadle("status", "--json").json["unlanded"]
    assert waits["run_id"] == newest(conflict) != first
    assert view["next"] == waits["next"]
    follow(conflict, [waits["next"]])
    assert (conflict.root / "shared.txt").read_text() == "mine\nrun\n"
    assert tracker(conflict) == f"{NAME}\n"
    assert conflict.treadle("status", "--json").json["unlanded"] == []
    assert conflict.treadle("land", "--all", "--json").json["landed"] == []


@pytest.mark.real
@pytest.mark.parametrize("words", [("spec", "drop"), ("process",)])
def test_a_listed_spec_without_a_landing_is_taken_up_by_retry(conflict, words):
    error = conflict.treadle(*words, NAME, "--json").json["error"]
    assert (error["code"], error["fix"]) == ("spec_done", [f"treadle spec retry {NAME}"])
    follow(conflict, error["fix"])
    assert conflict.treadle(*words, NAME).code == 0


@pytest.mark.real
def test_a_killed_retry_of_a_listed_spec_can_be_repeated(conflict):
    killed = conflict.treadle("spec", "retry", NAME, env={"TREADLE_DIE_AT": "after_spec_row"})
    assert killed.code == -9
    follow(conflict, [f"treadle spec retry {NAME}", "treadle process"])
    assert tracker(conflict) == f"{NAME}\n"
    assert len(conflict.treadle("runs", "list", "--json").json["runs"]) == 2


@pytest.mark.real
def test_specs_that_are_done_and_have_not_landed_name_their_landing(conflict):
    for name in ("one", "two"):
        routine(conflict, name, f"#!/bin/sh\n# Make it\necho x > {name}.txt\n")
        spec(conflict, f"{name}.spec.md", f"---\nroutine: {name}\n---\n# {name}\n")
    told = conflict.treadle("process", "--json").json["messages"]
    assert [item["status"] for item in told] == ["done", "done"]
    assert [item["next"] for item in told] == [
        f"treadle land {item['run_id'][-6:]}" for item in told
    ]
    lines = conflict.treadle("spec", "list").out.splitlines()
    assert [line for line in lines if line.startswith("next")] == ["next: treadle land --all"]
    follow(conflict, [told[0]["next"], told[1]["next"]])
    assert (conflict.root / "two.txt").exists()
    views = conflict.treadle("spec", "list", "--json").json["specs"]
    assert [item["name"] for item in views if item["next"]] == [NAME]


@pytest.fixture
def unchecked(project):
    """A spec that nobody can check."""
    project.agent("do", '(repo / "done.txt").write_text("1"); ok()', edits=True)
    spec(project, NAME, UNCHECKED)
    return project


def mend_spec(project):
    spec(project, NAME, UNCHECKED.replace("there", "there `$ test -f done.txt`"))


def mend_agents(project):
    project.agent("check", 'verdict("PASS", AC1=True); ok()')


@pytest.mark.real
@pytest.mark.parametrize("mend", [mend_spec, mend_agents])
def test_a_spec_that_nobody_can_check_says_what_mends_it(unchecked, mend):
    held = unchecked.treadle("process", "--json")
    (told,) = held.json["messages"]
    assert (held.code, told["status"]) == (3, "held")
    assert f"nobody can check AC1: in specs/{NAME}, end its line" in told["reason"]
    assert "`$ make test`, or configure [agents.check]" in told["reason"]
    (view,) = unchecked.treadle("spec", "list", "--json").json["specs"]
    assert (view["state"], view["reason"]) == ("held", told["reason"])
    assert view["next"] == told["next"] == "treadle desk show Q-1"
    shown = unchecked.treadle("desk", "show", "Q-1").out.splitlines()
    assert {f"  treadle spec show {NAME}", f"  ${{EDITOR:-vi}} specs/{NAME}"} < {*shown}
    follow(unchecked, [f"treadle spec show {NAME}"])
    status = unchecked.treadle("status", "--json").json
    assert (status["stuck"], status["queued"], len(status["waiting"])) == ([], [], 1)
    mend(unchecked)
    follow(unchecked, [f"treadle process {NAME}"])
    assert (unchecked.root / "done.txt").exists()
    assert unchecked.treadle("desk", "--json").json["items"] == []


def asked(project):
    """Return the numbers on the desk, and how many questions there ever were about no run."""
    numbers = [item["item_id"] for item in project.treadle("desk", "--json").json["items"]]
    with Store.open(Layout(project.root)) as store:
        return numbers, sum(row.run_id is None for row in store.questions(open_only=False))


@pytest.mark.parametrize("deaths", [["after_agent"], ["after_run_row", "after_agent"]])
def test_a_held_spec_is_one_question_until_it_begins(unchecked, deaths):
    for command in ("process", "process", "answer Q-1 retry"):
        assert unchecked.treadle(*command.split()).code == 3
        assert asked(unchecked) == (["Q-1"], 1)
    mend_agents(unchecked)
    for place in deaths:
        assert unchecked.treadle("process", env={"TREADLE_DIE_AT": place}).code == -9
    assert asked(unchecked) == ([], 1)
    assert unchecked.treadle("process").code == 0


@pytest.mark.real
def test_a_spec_whose_dependencies_conflict_is_freed_by_what_its_question_names(project):
    work = 'n = request["goal"]; (repo / "one").write_text(n); (repo / n).write_text(n); ok()'
    project.agent("do", work, edits=True)
    project.settings('[land]\nprocess = "manual"\n')
    text = "# {0}\n\n## Acceptance Criteria\n- there `$ test -f {0}`\n"
    for name in ("a", "b"):
        spec(project, f"{name}.spec.md", text.format(name))
    spec(project, "c.spec.md", "---\ndepends_on: [a, b]\n---\n" + text.format("c"))
    assert project.treadle("process", "--parallel", "2").code == 3
    (item,) = project.treadle("desk", "--json").json["items"]
    first, second = (row["run_id"] for row in project.treadle("status", "--json").json["unlanded"])
    assert item["fix"][:2] == [f"treadle land {second}", f"treadle rebase {first}"]
    mend = '(repo / "one").write_text("both"); (repo / request["goal"]).write_text("1"); ok()'
    project.agent("do", mend, edits=True)
    follow(project, [*item["fix"][:2], item["actions"][0]["answer"]])
    assert project.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
def test_words_that_free_a_held_spec_reach_the_agent(unchecked):
    unchecked.treadle("process")
    mend_agents(unchecked)
    unchecked.agent("plan", 'write("plan.md", request["context"]["notes"]); ok(files=["plan.md"])')
    assert unchecked.treadle("answer", "Q-1", "retry", "--text", "Mind the gap").code == 0
    plan = unchecked.run_dir(newest(unchecked)) / "steps" / "001-plan" / "plan.md"
    assert "Mind the gap" in plan.read_text()


@pytest.mark.real
def test_a_setup_that_keeps_failing_is_one_question_that_shows_the_last_run(inbox):
    inbox.settings('default_routine = "log"\n[workspace]\nsetup = ["false"]\n')
    spec(inbox, NAME)
    for _ in range(2):
        assert inbox.treadle("process").code == 3
        (item,) = inbox.treadle("desk", "--json").json["items"]
        assert newest(inbox) in item["summary"]
        assert f"treadle why {newest(inbox)}" in item["fix"]
    assert asked(inbox) == ([item["item_id"]], 1)


@pytest.mark.real
def test_a_held_message_that_was_left_is_not_asked_about_again(project):
    project.agent("do", "ok()", edits=True)
    project.treadle("send", "Make it", "--routine", "develop")
    project.treadle("process")
    follow(project, ["treadle answer Q-1 leave"])
    assert project.treadle("process").code == 3
    assert asked(project) == ([], 1)


def test_scripts_that_changed_the_same_lines_are_done_again_as_the_desk_proposes(inbox):
    site = Site(inbox)
    routine(inbox, "append", APPEND.replace("echo run", "echo $chain"))
    inbox.settings('default_routine = "append"\n')
    site.commit("shared.txt", "base\n")
    for name in (NAME, "02-b.spec.md"):
        spec(inbox, name)
    git(site.root, "add", ".")
    git(site.root, "commit", "-q", "-m", "Begin")
    assert inbox.treadle("process", "--parallel", "2").code == 3
    (item,) = inbox.treadle("desk", "--json").json["items"]
    follow(inbox, [f"treadle answer {item['item_id']} {item['actions'][0]['action']}"])
    assert len((site.root / "shared.txt").read_text().splitlines()) == 3
    assert inbox.treadle("desk", "--json").json["items"] == []
    assert {it["state"] for it in inbox.treadle("spec", "list", "--json").json["specs"]} == {"done"}


@pytest.mark.real
def test_scripts_whose_work_does_not_go_together_are_done_again_as_proposed(inbox):
    site = Site(inbox)
    routine(inbox, "append", APPEND.replace("echo run", "echo $chain"))
    inbox.settings('default_routine = "append"\n[land]\nprocess = "manual"\n')
    site.commit("shared.txt", "base\n")
    names = [NAME, "02-b.spec.md"]
    for name in names:
        spec(inbox, name)
    assert inbox.treadle("process", "--parallel", "2").code == 0
    spec(inbox, "03-c.spec.md", f"---\ndepends_on: [{', '.join(names)}]\n---\n# Both\n")
    assert inbox.treadle("process").code == 3
    (item,) = inbox.treadle("desk", "--json").json["items"]
    land, again, onward = item["fix"][:3]
    assert land.startswith("treadle land ")
    assert (again, onward) == ("treadle spec retry 02-b.spec.md", "treadle process")
    follow(inbox, [land, again, onward])


@pytest.mark.real
def test_the_question_about_it_is_answered_once_it_is_mended(unchecked):
    unchecked.treadle("process")
    mend_spec(unchecked)
    (item,) = unchecked.treadle("desk", "--json").json["items"]
    follow(unchecked, [item["actions"][0]["answer"]])
    assert (unchecked.root / "done.txt").exists()


@pytest.fixture
def unknown(project):
    """A spec on the desk, because what it depends on is not there."""
    spec(project, NAME, "---\ndepends_on: nothing\n---\n# A\n")
    assert project.treadle("process").code == 3
    (item,) = project.treadle("desk", "--json").json["items"]
    assert f"treadle answer {item['item_id']} reject" in item["fix"]
    project.item = item["item_id"]
    return project


@pytest.mark.real
@pytest.mark.parametrize("words", ["spec drop 01-a", "answer Q-1 reject"])
def test_a_held_spec_that_is_dropped_leaves_the_desk(unknown, words):
    assert unknown.treadle(*words.split()).code == 0
    assert unknown.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
def test_a_held_spec_whose_file_is_gone_can_leave_the_desk(unknown):
    (unknown.root / "specs" / NAME).unlink()
    done = unknown.treadle("answer", unknown.item, "reject")
    assert (done.code, "next" in done.out) == (0, False), done
    assert unknown.treadle("desk", "--json").json["items"] == []
    shown = unknown.treadle("desk", "show", unknown.item)
    assert re.search(r"answered by human at [-\d]+ [\d:]+ \w+: leave out", shown.out), shown


@pytest.mark.real
def test_a_pass_tells_why_a_spec_stopped_last(project):
    project.agent("do", '(repo / str(request["step"]["index"])).write_text("1"); ok()', edits=True)
    text = "# A\n\n## Acceptance Criteria\n- it is there `$ test -f done.txt`\n"
    spec(project, NAME, f"---\nbudgets:\n  max_iterations: 1\n---\n{text}")
    assert project.treadle("process").code == 4
    assert "budgets: max_iterations=1\n" in project.treadle("spec", "show", "01").out
    more = ("--budget", "max_iterations=2")
    assert project.treadle("run", "--resume", newest(project), *more).code == 4
    (told,) = project.treadle("process", "--json").json["messages"]
    (view,) = project.treadle("spec", "list", "--json").json["specs"]
    assert told["reason"] == view["reason"] == "max_iterations is 2 and 2 were used"


@pytest.mark.real
def test_a_held_spec_that_was_edited_starts_anew_with_its_new_fields(unchecked):
    unchecked.treadle("process")
    routine(unchecked, "other", "#!/bin/sh\n# Other\necho x > other.txt\n")
    spec(unchecked, NAME, "---\nroutine: other\n---\n# A\n")
    found = unchecked.treadle("process")
    assert (found.code, f"{NAME} was edited; it starts anew" in found.err) == (0, True)
    assert (unchecked.root / "other.txt").exists()


@pytest.mark.real
def test_a_message_that_nobody_can_check_names_its_file(project):
    project.agent("do", '(repo / "done.txt").write_text("1"); ok()', edits=True)
    project.treadle("send", "Make it", "--routine", "develop")
    (told,) = project.treadle("process", "--json").json["messages"]
    path = f".treadle/inbox/{told['id']}.md"
    assert f"in {path}, end its line" in told["reason"]
    with (project.root / path).open("a") as handle:
        handle.write("\n## Acceptance Criteria\n- it works `$ test -f done.txt`\n")
    assert told["next"] == "treadle desk show Q-1"
    assert "  treadle answer Q-1 resume\n" in project.treadle(*told["next"].split()[1:]).out
    follow(project, ["treadle answer Q-1 resume"])
    assert (project.root / "done.txt").exists()


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_folder_of_misnamed_files_says_so_on_stdout(inbox, options):
    spec(inbox, "01-a.md")
    spec(inbox, "02 b.txt")
    (inbox.root / "specs" / "more").mkdir()
    spec(inbox, "more/03-c.spec.md")
    moves = [
        "mv specs/01-a.md specs/01-a.spec.md",
        "mv 'specs/02 b.txt' 'specs/02 b.spec.md'",
        "mv specs/more/03-c.spec.md specs/",
    ]
    found = inbox.treadle("process", *options)
    assert found.out.splitlines() == [
        "01-a.md is not taken: the name of a spec ends with .spec.md",
        f"  next: {moves[0]}",
        "02 b.txt is not taken: the name of a spec ends with .spec.md",
        f"  next: {moves[1]}",
        "more/03-c.spec.md is not taken: it lies in a sub-folder",
        f"  next: {moves[2]}",
        "nothing else to do",
    ]
    left = inbox.treadle("process", *options, "--json").json["not_taken"]
    assert [item["next"] for item in left] == moves
    assert left[2]["name"] == "more/03-c.spec.md"
    for command in moves:
        subprocess.run(shlex.split(command), cwd=inbox.root, check=True)
    assert len(inbox.treadle("process", "--json").json["processed"]) == 3
    done = inbox.treadle("process", *options)
    assert (done.out, inbox.treadle("process", "--json").json["not_taken"]) == (
        "nothing to do\n",
        [],
    )


@pytest.mark.real
def test_a_kill_side_by_side_loses_and_doubles_no_spec(inbox):
    """Two are at work, one has landed: after the kill each lands once, in one run that counts."""
    here, names = inbox.folder / "here", [f"0{number}-a.spec.md" for number in (1, 2, 3)]
    here.mkdir()
    text = f"""#!/bin/sh
# Wait until allowed, unless it is the first
n=$(basename $spec_file | cut -c2)
touch {here}/$n
while [ $n != 1 ] && ! [ -e {here}/go ]; do sleep 0.02; done
echo $n > $n.txt
"""
    routine(inbox, "log", text)
    inbox.settings(f'default_routine = "log"\n[routine]\nwritable = ["{here}"]\n')
    for name in names:
        spec(inbox, name)
    process = inbox.start("process", "--parallel", "2")
    wait_for(lambda: (here / "2").exists() and (here / "3").exists())
    wait_for(lambda: (inbox.root / "1.txt").exists())
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (here / "go").touch()
    again = inbox.treadle("process", "--parallel", "2", "--json")
    assert again.code == 0, again
    trailers = "--format=%(trailers:key=Treadle-Spec,valueonly)"
    assert sorted(inbox.git("log", trailers).split()) == names
    assert sorted(tracker(inbox).split()) == names
    assert [(inbox.root / f"{n}.txt").read_text() for n in (1, 2, 3)] == ["1\n", "2\n", "3\n"]
    rows = inbox.treadle("runs", "list", "--json").json["runs"]
    assert sorted(row["status"] for row in rows) == ["passed"] * 3
    assert inbox.treadle("process", "--json").json["messages"] == []
