"""Tasks are edited and removed while nobody works on them, and nothing is lost."""

import shlex

import pytest

from tests.acceptance.site import Site


@pytest.fixture
def site(project):
    project.agent("do", '(repo / request["goal"]).touch(); ok()', edits=True)
    found = Site(project)
    for name, *more in (("A",), ("B", "--depends-on", "A")):
        verify = f"AC1=test -f {name}"
        project.treadle("task", "add", name, "--id", name, "--verify", verify, *more)
    return found


def edit(site, *words):
    return site.project.treadle("task", "edit", *words, "--json")


def remove(site, *words):
    return site.project.treadle("task", "remove", *words, "--json")


def show(site, name):
    return site.project.treadle("task", "show", name, "--json").json


def follow(site, result, code):
    """Take the first command that an error proposes, literally."""
    assert (result.code, result.json["error"]["code"]) == (3, code), result
    done = site.project.treadle(*shlex.split(result.json["error"]["fix"][0])[1:])
    assert done.code == 0, done


def test_goal_command_and_dependency_change_and_the_run_gets_them(site):
    site.project.treadle("task", "link", "B", "--depends-on", "A", "--remove")
    assert edit(site, "A", "--goal", "X", "--verify", "AC1=test -f X").code == 0
    assert edit(site, "A", "--depends-on", "B").code == 0
    found = show(site, "A")
    assert found["criteria"] == [{"id": "AC1", "text": "X", "verify": "test -f X"}]
    assert (found["goal"], found["depends_on"]) == ("X", ["B"])
    assert found["moves"][-1]["reason"] == "edited: goal, criteria"
    assert "# X" in (site.root / ".treadle" / "mail" / "TASKS" / "A.md").read_text()
    assert site.project.treadle("run", "B", "A").code == 0


def test_new_criteria_replace_the_old_ones(site):
    assert edit(site, "A", "--ac", "one", "--ac", "two", "--verify", "AC2=true").code == 0
    pairs = [(item["text"], item["verify"]) for item in show(site, "A")["criteria"]]
    assert pairs == [("one", None), ("two", "true")]


def test_a_hand_made_description_stays(site):
    path = site.root / ".treadle" / "mail" / "TASKS" / "A.md"
    path.write_text("mine\n")
    edit(site, "A", "--goal", "X")
    assert path.read_text() == "mine\n"


@pytest.mark.real
def test_what_is_wrong_in_an_edit_is_named(site):
    assert edit(site, "A").code == 2
    assert "no such criterion" in edit(site, "A", "--verify", "AC9=true").json["error"]["message"]
    assert edit(site, "A", "--depends-on", "B").json["error"]["code"] == "task_cycle"
    assert edit(site, "A", "--depends-on", "C").json["error"]["code"] == "not_found"
    assert edit(site, "Z", "--goal", "X").json["error"]["code"] == "not_found"


@pytest.mark.real
def test_work_that_was_judged_is_edited_after_it_is_sent_back(site):
    site.project.treadle("run", "A")
    follow(site, edit(site, "A", "--goal", "X"), "task_fixed")
    assert edit(site, "A", "--goal", "X").code == 0


@pytest.mark.real
def test_a_task_somebody_holds_is_neither_edited_nor_removed(site):
    site.project.treadle("task", "claim", "A", "--as", "dev")
    assert edit(site, "A", "--goal", "X").json["error"]["code"] == "task_held"
    follow(site, remove(site, "A"), "task_held")  # which looks: the task is dev's to release
    assert show(site, "A")["owner"] == "dev"
    site.project.treadle("task", "release", "A", "--as", "dev")
    assert edit(site, "A", "--goal", "X").code == 0


@pytest.mark.real
def test_a_removed_task_is_off_the_list_and_its_work_stays(site):
    site.project.treadle("run", "A")
    result = remove(site, "A")
    assert result.json["error"]["code"] == "task_needed"
    assert "B" in result.json["error"]["message"]
    (row,) = show(site, "A")["runs"]
    said = site.project.treadle("task", "remove", "A", "--force").out
    assert "B no longer waits for it" in said
    assert f"treadle land {row['run_id']}" in said
    listed = site.project.treadle("task", "list").out
    assert "\nA " not in listed
    assert "treadle task list --lane canceled" in listed
    assert show(site, "B")["depends_on"] == []
    assert site.land(row["run_id"]).code == 0
    assert show(site, "A")["lane"] == "canceled"


@pytest.mark.real
def test_a_failed_run_of_a_removed_task_asks_nothing_any_more(site):
    site.project.agent("do", "raise SystemExit(3)", edits=True)
    site.project.treadle("run", "A")
    assert site.project.treadle("desk", "--json").json["items"]
    assert remove(site, "A", "--force").code == 0
    assert site.project.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
@pytest.mark.parametrize("end", ["removed", "done"])
def test_the_run_of_a_task_that_is_over_begins_anew_as_it_proposes(site, end):
    site.project.agent("do", "raise SystemExit(3)", edits=True)
    run_id = site.project.treadle("run", "A", "--json").json["run_id"]
    site.project.agent("do", '(repo / request["goal"]).touch(); ok()', edits=True)
    if end == "removed":
        remove(site, "A", "--force")
    else:
        site.project.treadle("task", "done", "A")
    (way,) = site.project.treadle("why", run_id, "--json").json["next"]
    done = site.project.treadle(*shlex.split(way)[1:], "--json")
    assert (done.code, done.json["task_id"]) == (0, None), done
    assert site.land(done.json["run_id"]).code == 0
