"""What was accepted is known wherever the repository is, and never handed out again."""

import json
import shutil
from pathlib import Path

import pytest

from tests.acceptance.mission import Mission
from tests.builder import Project, git, wait_for

WALK = ("claimed", "in_progress", "for_review", "in_review", "approved")


def approve(mission: Mission, *ids: str) -> None:
    for id_ in ids:
        for lane in WALK:
            moved = mission.move(f"{mission.slug}.{id_}", lane)
            assert moved.code == 0, moved


def accept(mission: Mission, **more):
    return mission.project.treadle(
        "next", "--step", "accept", "--result", "success", "--json", **more
    )


@pytest.fixture
def approved(mission) -> Mission:
    """A mission whose two tasks passed their reviews."""
    mission.with_tasks("", "")
    approve(mission, "WP01", "WP02")
    return mission


@pytest.fixture
def accepted(approved) -> Mission:
    assert accept(approved).json["kind"] == "complete"
    return approved


def meta(mission: Mission) -> Path:
    return mission.folder / "meta.json"


def require_complete(project: Project, *, tasks: int = 2) -> None:
    told = project.treadle("next", "--json").json
    assert (told["kind"], told["reason_code"]) == ("complete", "mission_complete"), told
    lent = project.treadle("next", "--json", "--agent", "ann").json
    assert lent["kind"] == "complete", lent
    status = project.treadle("mission", "status", "--json").json
    assert (status["phase_complete"], status["tasks"]) == (True, {"done": tasks})
    (listed,) = project.treadle("mission", "list", "--json").json["missions"]
    assert (listed["phase_complete"], listed["tasks"]) == (True, {"done": tasks})
    rows = project.treadle("task", "list", "--json").json["tasks"]
    assert [row["lane"] for row in rows] == ["done"] * tasks


def lose_store(project: Project) -> None:
    for path in (project.root / ".treadle").glob("treadle.db*"):
        path.unlink()


def test_accepting_is_one_commit_of_one_file(approved):
    project, path = approved.project, meta(approved)
    (project.root / "staged.txt").write_text("mine")
    project.git("add", "staged.txt")
    before, count = path.read_text(), int(project.git("rev-list", "--count", "HEAD"))
    refused = accept(approved)
    assert refused.json["error"]["files"] == ["staged.txt"]
    project.git("rm", "-q", "--cached", "staged.txt")
    (project.root / ".git" / "info" / "exclude").write_text("staged.txt\n")
    assert accept(approved).json["kind"] == "complete"
    assert int(project.git("rev-list", "--count", "HEAD")) == count + 1
    assert project.git("show", "--format=%s", "--name-only").split("\n")[:3] == [
        "Accept feature auth",
        "",
        "missions/auth/meta.json",
    ]
    after = path.read_text()
    said = json.loads(after)
    assert said["lanes"] == {"WP01": "done", "WP02": "done"}
    assert said["accepted_at"].endswith("Z")
    kept = before.rstrip().removesuffix("}").rstrip()
    assert after.startswith(kept)
    assert {**json.loads(before), "accepted_at": 0, "lanes": 0}.keys() == said.keys()
    assert project.git("status", "--porcelain") == ""
    assert accept(approved).code in (0, 3)  # a step that is over
    assert int(project.git("rev-list", "--count", "HEAD")) == count + 1
    require_complete(project)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"b":1,"a":[1,\n2]}', '{"b":1,"a":[1,\n2],\n  "accepted_at"'),
        ('{\r\n\t"b": 1\r\n}\r\n', '{\r\n\t"b": 1,\r\n\t"accepted_at"'),
        ("{}", '{\n  "accepted_at"'),
        ('{"accepted_at": null, "b": "}"}\n', '{"accepted_at": "20'),
    ],
)
def test_other_keys_stay_as_they_are_written(approved, before, after):
    meta(approved).write_bytes(before.encode())
    approved.project.git("commit", "-qam", "Reword")
    assert accept(approved).json["kind"] == "complete"
    text = meta(approved).read_bytes().decode()
    assert text.startswith(after)
    assert text.endswith(before.rpartition("}")[2])
    assert {"accepted_at", "lanes"} <= json.loads(text).keys()


def test_a_meta_in_another_encoding_is_named_and_nothing_is_accepted(approved):
    meta(approved).write_bytes(meta(approved).read_text().encode("utf-16"))
    approved.project.git("commit", "-qam", "Recode")
    refused = accept(approved)
    assert refused.json["error"]["message"] == "missions/auth/meta.json is not UTF-8"
    assert approved.lane("auth.WP01") == "approved"
    assert approved.project.git("status", "--porcelain") == ""


@pytest.mark.real
def test_a_mission_without_meta_gets_one_when_it_is_accepted(approved):
    approved.project.git("rm", "-q", str(meta(approved)))
    approved.project.git("commit", "-qm", "No meta")
    assert accept(approved).json["kind"] == "complete"
    assert json.loads(meta(approved).read_text())["lanes"] == {"WP01": "done", "WP02": "done"}


@pytest.mark.real
def test_what_is_accepted_is_known_in_a_clone(accepted, tmp_path):
    git(tmp_path, "clone", "-q", str(accepted.project.root), "clone")
    require_complete(Project(tmp_path / "clone", accepted.project.folder))
    refused = Project(tmp_path / "clone", accepted.project.folder).treadle("task", "claim", "WP01")
    assert "done is final" in refused.err


@pytest.mark.real
def test_what_is_accepted_is_known_without_the_store(accepted):
    lose_store(accepted.project)
    require_complete(accepted.project)
    lose_store(accepted.project)
    shutil.rmtree(accepted.project.root / ".treadle" / "mail", ignore_errors=True)
    rows = accepted.project.treadle("task", "list", "--json").json["tasks"]
    assert [row["lane"] for row in rows] == ["done", "done"]


@pytest.mark.real
@pytest.mark.parametrize("first", [(), ("--agent", "cid")], ids=["asked", "lent"])
def test_work_that_is_held_or_handed_in_is_known_without_the_store(mission, first):
    mission.with_tasks("", "", "")
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP01"
    mission.work()
    assert mission.next("--agent", "ann", "--result", "success")["task_id"] == "auth.WP02"
    shown = mission.project.root / ".treadle/mail/TASKS"
    before = {path: path.read_bytes() for path in shown.iterdir()}
    lose_store(mission.project)
    assert mission.next(*first)["task_id"] == "auth.WP03"
    assert {path: path.read_bytes() for path in before} == before
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP02"
    assert mission.next("--agent", "cid")["task_id"] == "auth.WP03"
    review = mission.next("--agent", "bob")
    assert (review["phase"], review["task_id"]) == ("review", "auth.WP01")
    mission.next("--agent", "bob", "--step", "review:WP01", "--result", "success")
    lose_store(mission.project)
    assert mission.lane("auth.WP01") == "approved"


@pytest.mark.real
def test_what_is_accepted_is_known_in_a_linked_work_tree(accepted, tmp_path):
    git(accepted.project.root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    require_complete(Project(tmp_path / "linked", accepted.project.folder))


@pytest.mark.real
def test_tasks_that_wait_for_others_are_accepted_in_turn(mission):
    """What a task waits for is accepted before it begins; a clone knows that as well."""
    mission.with_tasks("", "dependencies: [WP01]\n")
    approve(mission, "WP01")
    told = accept(mission).json
    assert (told["kind"], told["task_id"]) == ("step", "auth.WP02")
    said = json.loads(meta(mission).read_text())
    assert (said["lanes"], "accepted_at" in said) == ({"WP01": "done"}, False)
    lose_store(mission.project)
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP02"
    for lane in WALK[1:]:
        assert mission.move("auth.WP02", lane, "--as", "ann").code == 0
    assert accept(mission).json["kind"] == "complete"
    assert json.loads(meta(mission).read_text())["accepted_at"]


@pytest.mark.real
def test_a_task_that_is_added_later_is_the_next_one(accepted):
    accepted.commit(accepted.task(3), "---\ntitle: More\n---\nDo it.\n")
    assert accepted.next("--agent", "ann")["task_id"] == "auth.WP03"
    for lane in WALK[1:]:
        assert accepted.move("auth.WP03", lane, "--as", "ann").code == 0
    before = json.loads(meta(accepted).read_text())["accepted_at"]
    assert accept(accepted).json["kind"] == "complete"
    said = json.loads(meta(accepted).read_text())
    assert said["lanes"] == {f"WP0{n}": "done" for n in (1, 2, 3)}
    assert said["accepted_at"] > before


@pytest.mark.real
@pytest.mark.parametrize("point", ["acceptance_written", "acceptance_committed"])
def test_a_kill_while_accepting_makes_one_commit_and_loses_nothing(approved, point):
    project = approved.project
    count = int(project.git("rev-list", "--count", "HEAD"))
    assert accept(approved, env={"TREADLE_DIE_AT": point}).code == -9
    if point == "acceptance_written":
        asked = approved.next()
        assert (asked["kind"], asked["phase"]) == ("step", "accept")
        assert project.treadle("task", "show", "auth.WP01", "--json").json["lane"] == "approved"
        assert accept(approved).json["kind"] == "complete"
    require_complete(project)
    assert int(project.git("rev-list", "--count", "HEAD")) == count + 1
    assert project.git("status", "--porcelain") == ""
    assert approved.lane("auth.WP01") == "done"
    lose_store(project)
    require_complete(project)


def edited(mission: Mission, **keys) -> None:
    said = json.loads(meta(mission).read_text())
    for key, value in keys.items():
        said.pop(key) if value is None else said.update({key: value})
    meta(mission).write_text(json.dumps(said, indent=2) + "\n")


@pytest.mark.real
@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"accepted_at": None}, "accepted_at"),
        ({"accepted_at": "2001-01-01T00:00:00Z"}, "accepted_at"),
        ({"lanes": {"WP01": "done"}}, "lanes"),
        ({"lanes": {"WP01": "planned", "WP02": "done"}}, "lanes.WP01"),
        ({"lanes": [1]}, "lanes"),
        ({"accepted_at": 7}, "accepted_at"),
    ],
)
@pytest.mark.parametrize("is_committed", [False, True], ids=["edited", "committed"])
def test_meta_that_is_edited_after_acceptance_is_named(accepted, keys, named, is_committed):
    edited(accepted, **keys)
    lose_store(accepted.project)
    if is_committed:
        shutil.rmtree(accepted.project.root / ".treadle/mail")  # which says it too
        accepted.project.git("commit", "-qam", "Edit")
        told = accepted.next("--agent", "ann")
        if told["kind"] == "blocked":
            assert (told["reason_code"], named in told["reason"]) == ("meta_invalid", True)
        elif keys.get("lanes"):  # what is left of it counts
            assert told["task_id"] == "auth.WP02"
        else:
            assert told["kind"] == "complete"
        return
    told = accepted.next("--agent", "ann")
    assert told["kind"] == "blocked", told
    assert "missions/auth/meta.json" in told["reason"]
    assert named in told["reason"]
    (*_, last) = told["unblock"]
    if told["reason_code"] == "acceptance_edited":
        assert last == "git checkout HEAD -- missions/auth/meta.json"
        accepted.project.git(*last.split()[1:])
        require_complete(accepted.project)


@pytest.mark.real
def test_garbage_in_meta_is_named_and_hands_nothing_out(accepted):
    meta(accepted).write_text("}{")
    accepted.project.git("commit", "-qam", "Garbage")
    for words in ((), ("--agent", "ann")):
        told = accepted.next(*words)
        assert (told["kind"], told["reason_code"]) == ("blocked", "meta_invalid")
        assert "missions/auth/meta.json cannot be read" in told["reason"]
    lose_store(accepted.project)
    assert accepted.next("--agent", "ann")["reason_code"] == "meta_invalid"


@pytest.mark.real
def test_nothing_is_accepted_before_it_is_committed(mission):
    mission.with_tasks("")
    edited(mission, accepted_at="2026-01-01T00:00:00Z", lanes={"WP01": "done"})
    assert mission.next()["task_id"] == "auth.WP01"


@pytest.mark.real
def test_accepting_waits_for_gits_lock(approved):
    project = approved.project
    lock = project.root / ".git" / "index.lock"
    lock.touch()
    started = project.start("next", "--step", "accept", "--result", "success", "--json")
    wait_for(lambda: "accepted_at" in meta(approved).read_text())
    assert started.poll() is None
    lock.unlink()
    out, err = started.communicate(timeout=60)
    assert json.loads(out)["kind"] == "complete", err
    assert project.git("status", "--porcelain") == ""


@pytest.mark.real
def test_two_who_accept_at_once_make_one_commit(approved):
    project = approved.project
    count = int(project.git("rev-list", "--count", "HEAD"))
    words = ("next", "--step", "accept", "--result", "success", "--json", "--agent")
    started = [project.start(*words, name) for name in ("ann", "bob", "cyd")]
    told = [json.loads(process.communicate(timeout=60)[0]) for process in started]
    kinds = [it.get("kind") or it["error"]["code"] for it in told]
    assert "complete" in kinds
    assert set(kinds) <= {"complete", "step_over"}
    assert int(project.git("rev-list", "--count", "HEAD")) == count + 1
    require_complete(project)
