"""Accepted work stays true: `treadle verify` runs the criteria of what landed on HEAD."""

import pytest

WORK = 'name = request["goal"].split()[-1]; (repo / name).write_text(name + "\\n"); ok()'
AUTO = '[land]\nrun = "auto"\n'


@pytest.fixture
def shop(project):
    """A project in which a task has landed."""
    project.settings(AUTO)
    project.agent("do", WORK, edits=True)
    project.git("add", "-A")
    project.git("commit", "-qm", "settings")
    project.treadle("task", "add", "Make one", "--id", "T-1", "--verify", "AC1=grep -q one one")
    assert project.treadle("run", "T-1").code == 0
    return project


def newest(project):
    return project.treadle("runs", "list", "--json").json["runs"][0]["run_id"]


def spoil(project, name):
    project.git("rm", "-q", name)
    project.git("commit", "-qm", f"without {name}")


def items(project):
    return project.treadle("desk", "--json").json["items"]


@pytest.mark.real
def test_tasks_specs_and_goals_that_landed_are_green(shop):
    spec = "# Make two\n\n## Acceptance Criteria\n\n- it is there: `$ test -f two`\n"
    (shop.root / "specs").mkdir(exist_ok=True)
    (shop.root / "specs/01-two.spec.md").write_text(spec)
    shop.git("add", "specs")
    shop.git("commit", "-qm", "a spec")
    assert shop.treadle("process").code == 0
    assert shop.treadle("run", "--goal", "Make three", "--verify", "AC1=test -f three").code == 0
    names = ["T-1", "01-two.spec.md", newest(shop)]
    before = shop.git("status", "--porcelain"), shop.git("rev-parse", "HEAD")
    for words in ((), ("--all",)):
        found = shop.treadle("verify", *words, "--json")
        assert found.code == 0
        assert sorted(found.json["green"]) == sorted(names)
        assert (found.json["red"], found.json["cannot_run"]) == ([], [])
    assert (shop.git("status", "--porcelain"), shop.git("rev-parse", "HEAD")) == before
    assert len(shop.treadle("runs", "list", "--json").json["runs"]) == 3
    assert items(shop) == []
    spoil(shop, "two")
    found = shop.treadle("verify", "T-1", names[2][-6:], "--json")
    assert (found.code, sorted(found.json["green"])) == (0, sorted([names[0], names[2]]))
    assert shop.treadle("verify", "01-two").code == 1
    (item,) = items(shop)
    assert "treadle verify 01-two.spec.md" in item["fix"]


def test_what_fails_now_is_red_and_on_the_desk_once(shop):
    spoil(shop, "one")
    for _ in range(2):
        found = shop.treadle("verify")
        assert found.code == 1
        assert "RED T-1" in found.out
        assert "AC1 failed: grep -q one one" in found.out
    (item,) = items(shop)
    assert "AC1 held when this landed and fails now" in item["summary"]
    assert {"treadle verify T-1", "treadle verify T-1 --task"} <= set(item["fix"])
    (shop.root / "one").write_text("one\n")
    shop.git("add", "one")
    shop.git("commit", "-qm", "one again")
    assert shop.treadle("verify").code == 0
    assert items(shop) == []


def test_what_somebody_left_as_it_is_is_not_asked_again(shop):
    spoil(shop, "one")
    shop.treadle("verify")
    (item,) = items(shop)
    number = [it["action"] for it in item["actions"]].index("leave") + 1
    assert shop.treadle("answer", item["item_id"], "--option", str(number)).code == 0
    assert shop.treadle("verify").code == 1
    assert items(shop) == []


@pytest.mark.real
def test_only_what_is_committed_counts(shop):
    (shop.root / "one").unlink()
    assert shop.treadle("verify").code == 0


@pytest.mark.real
def test_a_task_is_made_of_what_is_red_once_and_mends_it(shop):
    spoil(shop, "one")
    for _ in range(2):
        found = shop.treadle("verify", "T-1", "--task", "--json")
        assert found.code == 1
        (work,) = found.json["work"]
        assert work["task_id"] == "T-2"
    task = shop.treadle("task", "show", "T-2", "--json").json
    assert [it["verify"] for it in task["criteria"]] == ["grep -q one one"]
    (item,) = items(shop)
    assert "treadle run T-2" in item["fix"]
    shop.agent("do", '(repo / "one").write_text("one\\n"); ok()', edits=True)
    assert shop.treadle("run", "T-2").code == 0
    assert shop.treadle("verify").code == 0
    assert items(shop) == []


@pytest.mark.real
def test_a_command_that_cannot_run_is_told_apart(shop, tmp_path):
    tool = tmp_path / "bin/mytool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\ntest -f four\n")
    tool.chmod(0o755)
    env = {"PATH": f"{tool.parent}:{shop.environment()['PATH']}"}
    words = ("run", "--goal", "Make four", "--verify", "AC1=mytool")
    assert shop.treadle(*words, env=env).code == 0
    run = newest(shop)
    found = shop.treadle("verify", run, "--json")
    assert found.code == 3
    assert found.json["cannot_run"] == [run]
    assert "mytool" in found.json["work"][0]["seen"][0]["note"]
    assert items(shop) == []


@pytest.mark.real
def test_a_setup_that_fails_means_that_nothing_can_run(shop):
    shop.settings(AUTO + '[workspace]\nsetup = ["sh", "-c", "echo no; exit 4"]\n')
    found = shop.treadle("verify", "T-1")
    assert found.code == 3
    assert "workspace.setup exited with 4" in found.out
    assert "| no" in found.out


@pytest.mark.real
def test_what_was_undone_or_is_on_another_branch_is_not_asked_about(shop):
    run = newest(shop)
    shop.git("switch", "-q", "-c", "old", ":/^settings")
    assert "nothing has landed on the commit that is checked out" in shop.treadle("verify").out
    refused = shop.treadle("verify", "T-1", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "not_landed")
    shop.git("switch", "-q", "main")
    assert shop.treadle("verify", "--json").json["green"] == ["T-1"]
    shop.treadle("undo", run)
    assert shop.treadle("verify", "--json").json["work"] == []
    assert shop.treadle("verify", "T-1", "--json").json["error"]["fix"] == [f"treadle land {run}"]


@pytest.mark.real
def test_the_same_command_runs_once_for_all(shop):
    shop.treadle("run", "--goal", "Make six", "--verify", "AC1=grep -q one one", "--anyway")
    assert len(shop.treadle("verify", "--json").json["green"]) == 2
    logs = list((shop.root / ".treadle/verify/live").glob("*.txt"))
    assert len(logs) == 1


@pytest.mark.real
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("T-9",), "no run is called 'T-9'"),
        (("--all", "T-1"), "not both"),
    ],
)
def test_what_makes_no_sense_is_refused(shop, words, said):
    found = shop.treadle("verify", *words)
    assert found.code in (1, 2)
    assert said in found.err


@pytest.mark.real
def test_a_killed_verify_leaves_nothing_that_matters(shop):
    killed = shop.treadle("verify", env={"TREADLE_DIE_AT": "verify_observed"})
    assert killed.code == -9
    assert shop.treadle("doctor").code == 0
    found = shop.treadle("verify", "--json")
    assert found.json["green"] == ["T-1"]
    assert shop.only_run()["task_id"] == "T-1"


@pytest.mark.real
def test_answering_makes_the_task(shop):
    spoil(shop, "one")
    shop.treadle("verify")
    (item,) = items(shop)
    assert [it["action"] for it in item["actions"]] == ["again", "retry", "leave"]
    shop.treadle("answer", item["item_id"], "again")
    (task,) = [
        it for it in shop.treadle("task", "list", "--json").json["tasks"] if it["task_id"] != "T-1"
    ]
    assert task["lane"] == "planned"
    (item,) = items(shop)
    assert f"treadle run {task['task_id']}" in item["fix"]
