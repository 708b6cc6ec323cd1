"""A mission is who its meta.json says it is: a renamed folder keeps lanes, reports, questions."""

import json
import re
import shlex
import shutil
import subprocess

import pytest

from tests.acceptance.mission import Mission
from tests.builder import Project, git


def renamed(mission: Mission, slug: str, *, commits: bool = True) -> Mission:
    project = mission.project
    project.git("mv", f"missions/{mission.slug}", f"missions/{slug}")
    if commits:
        project.git("commit", "-qm", "Rename")
    return Mission(project, slug)


@pytest.fixture
def begun(mission) -> Mission:
    """A mission with a task that is in review, one that is held, and one that is stuck."""
    mission.with_tasks("", "", "")
    for lane in ("claimed", "in_progress", "for_review"):
        assert mission.move("auth.WP01", lane).code == 0
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP02"
    words = ("--agent", "bob", "--step", "implement:WP03", "--result", "failed", "--note")
    for note in ("first", "second", "no network"):
        mission.next(*words, note)
    return mission


def test_create_gives_a_mission_an_id_of_its_own(mission):
    second = Mission(mission.project, "second").create()
    ids = [
        json.loads((it.folder / "meta.json").read_text())["mission_id"] for it in (mission, second)
    ]
    assert ids[0] < ids[1]
    assert all(re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", id_) for id_ in ids)


@pytest.mark.real
@pytest.mark.parametrize("first", ["next", "show", "status", "list", "desk", "tasks"])
def test_a_renamed_folder_keeps_everything(begun, first):
    login = renamed(begun, "login")
    treadle = begun.project.treadle
    looks = {
        "next": lambda: json.dumps(login.next("--agent", "cyd")),
        "show": lambda: treadle("task", "show", "login.WP01").out,
        "status": lambda: treadle("mission", "status").out,
        "list": lambda: treadle("mission", "list").out,
        "desk": lambda: treadle("desk").out,
        "tasks": lambda: treadle("task", "list").out,
    }
    for look in (looks[first], *looks.values()):
        assert not re.search(r"\bauth\b", look()), look()
    tasks = treadle("task", "list", "--json").json["tasks"]
    assert [(row["task_id"], row["lane"], row["owner"]) for row in tasks] == [
        ("login.WP01", "for_review", "human"),
        ("login.WP02", "claimed", "ann"),
        ("login.WP03", "claimed", "bob"),
    ]
    (item,) = treadle("desk", "--json").json["items"]
    assert item["task_id"] == "login.WP03"
    assert "no network" in item["summary"]
    for command in item["fix"]:
        assert "auth" not in command
    assert login.next("--agent", "ann")["task_id"] == "login.WP02"
    moves = treadle("task", "show", "login.WP01", "--json").json["moves"]
    assert [move["to_lane"] for move in moves] == ["claimed", "in_progress", "for_review"]
    names = {
        path.name.partition(".")[0]
        for path in (begun.project.root / ".treadle/mail/TASKS").iterdir()
    }
    assert names == {"login"}
    gone = treadle("task", "show", "auth.WP01", "--json")
    assert gone.json["error"]["code"] == "not_found"


def test_a_folder_that_is_renamed_on_a_branch_keeps_it_in_both(begun, tmp_path):
    root = begun.project.root
    git(root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    linked = Project(tmp_path / "linked", begun.project.folder)
    login = renamed(Mission(linked), "login")
    for _ in range(2):
        assert login.next("--agent", "ann")["task_id"] == "login.WP02"
        assert begun.next("--agent", "ann")["task_id"] == "auth.WP02"
        held = login.next("--agent", "cyd")
        assert held["task_id"] == "login.WP01"  # the review; nothing else is free
        assert len(linked.treadle("task", "list", "--json").json["tasks"]) == 3


def test_names_can_be_swapped_and_given_to_others(begun):
    project = begun.project
    other = Mission(project, "other").create()
    words = ("--mission", "other", "--step", "specify", "--result", "blocked", "--note", "which?")
    assert other.next(*words)["kind"] == "blocked"
    for names in (("auth", "x"), ("other", "auth"), ("x", "other")):
        (project.root / "missions" / names[0]).rename(project.root / "missions" / names[1])
    project.git("add", "-A", "missions")
    project.git("commit", "-qm", "Swap")
    assert begun.next("--mission", "other", "--agent", "ann")["task_id"] == "other.WP02"
    told = begun.next("--mission", "auth")
    assert (told["kind"], "which?" in told["reason"]) == ("blocked", True)
    assert begun.next("--mission", "other", "--agent", "ann")["task_id"] == "other.WP02"
    project.git("rm", "-qr", "missions/other")
    project.git("commit", "-qm", "Remove")
    Mission(project, "other").create()
    new = begun.next("--mission", "other", "--agent", "ann")
    assert (new["phase"], new["task_id"]) == ("specify", None)
    project.git("rm", "-qr", "missions/other")
    project.git("checkout", "-q", "HEAD~2", "--", "missions/other")
    project.git("commit", "-qm", "The old one again")
    assert begun.next("--mission", "other", "--agent", "ann")["task_id"] == "other.WP02"


def test_an_id_that_appears_later_loses_nothing(begun):
    meta = begun.folder / "meta.json"
    said = json.loads(meta.read_text())
    id_ = said.pop("mission_id")
    begun.commit(meta, json.dumps(said))
    assert begun.next("--agent", "ann")["task_id"] == "auth.WP02"
    begun.commit(meta, json.dumps(said | {"mission_id": f"{id_[:-1]}0"}))
    # An id the store has never seen, on a folder that had another: that is another mission.
    begun.commit(meta, json.dumps(said | {"mission_id": id_}))
    assert begun.next("--agent", "ann")["task_id"] == "auth.WP02"


def test_a_mission_without_an_id_goes_by_its_folder_and_may_get_one(mission):
    meta = mission.folder / "meta.json"
    said = json.loads(meta.read_text())
    id_ = said.pop("mission_id")
    mission.commit(meta, json.dumps(said))
    mission.with_tasks("", "")
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP01"
    mission.commit(meta, json.dumps(said | {"mission_id": id_}))
    assert mission.next("--agent", "bob")["task_id"] == "auth.WP02"
    login = renamed(mission, "login")
    assert login.next("--agent", "ann")["task_id"] == "login.WP01"


def test_a_copied_folder_is_named_with_the_command_that_helps(begun):
    project = begun.project
    third = Mission(project, "third").create()
    shutil.copytree(begun.folder, project.root / "missions" / "again")
    project.git("add", ".")
    project.git("commit", "-qm", "Copy")
    for slug in ("again", "auth"):
        told = begun.next("--mission", slug, "--agent", "ann")
        assert (told["kind"], told["reason_code"]) == ("blocked", "mission_id_twice")
        assert "missions/again/meta.json and missions/auth/meta.json" in told["reason"]
        refused = project.treadle("task", "claim", f"{slug}.WP01", "--json")
        assert refused.json["error"]["code"] == "mission_id_twice"
    assert third.next("--mission", "third")["kind"] == "step"
    listed = project.treadle("mission", "list", "--json").json["missions"]
    assert [bool(item["error"]) for item in listed] == [True, True, False]
    (command,) = told["unblock"]
    assert command.endswith("missions/again/meta.json")
    subprocess.run(shlex.split(command), cwd=project.root, check=True)
    project.git("commit", "-qam", "An id of its own")
    assert begun.next("--mission", "auth", "--agent", "ann")["task_id"] == "auth.WP02"
    assert begun.next("--mission", "again", "--agent", "ann")["task_id"] == "again.WP01"


@pytest.mark.real
@pytest.mark.parametrize("value", [7, "", "a b", ["x"]])
def test_an_id_that_cannot_be_one_is_named(begun, value):
    meta = begun.folder / "meta.json"
    begun.commit(meta, json.dumps(json.loads(meta.read_text()) | {"mission_id": value}))
    told = begun.next("--agent", "ann")
    assert (told["kind"], told["reason_code"]) == ("blocked", "meta_invalid")
    assert "missions/auth/meta.json says mission_id" in told["reason"]


LINKS = (
    ".kittify",
    *(pytest.param(it, marks=pytest.mark.real) for it in ("tasks", ".kittify/dossiers")),
)


@pytest.mark.parametrize("name", LINKS)
def test_a_mission_that_leads_out_of_the_project_is_refused(mission, tmp_path, name):
    outside, path = tmp_path / "outside", mission.folder / name
    outside.mkdir()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(outside)
    for word in ("dossier", "tasks"):
        done = mission.project.treadle("mission", word, "--mission", "auth", "--json")
        assert done.json["error"]["code"] == "mission_linked"
    assert not list(outside.iterdir())


@pytest.mark.real
def test_no_mission_is_begun_or_put_behind_a_link(mission, tmp_path):
    outside, home = tmp_path / "outside", mission.project.root / "missions"
    outside.mkdir()
    (home / "new").symlink_to(tmp_path / "nowhere")
    told = mission.project.treadle("mission", "create", "new", "--json").json
    assert told["error"]["code"] == "mission_exists"
    (home / "archive").symlink_to(outside)
    mission.project.treadle("mission", "cancel", "--mission", "auth", "--reason", "x")
    mission.project.git("add", "-A")
    mission.project.git("commit", "-qm", "A gift")
    told = mission.project.treadle("mission", "archive", "--mission", "auth", "--json").json
    assert told["error"]["code"] == "mission_linked"
    home.rename(mission.project.root / "others")
    home.symlink_to(outside)
    told = mission.project.treadle("mission", "create", "more", "--json").json
    assert "missions need a folder there" in told["error"]["message"]
    assert not list(outside.iterdir())
