"""A mission's tasks: ids, lanes, dirty trees, the dossier that never blocks."""

import json
import os
import shutil
import stat

import pytest

from tests.acceptance.mission import Mission
from tests.builder import git

SNAPSHOT = ".kittify/dossiers/auth/snapshot-latest.json"


@pytest.fixture
def mission(tasked):
    return tasked


def dossier(mission) -> dict:
    return mission.project.treadle("mission", "dossier", "--json").json


def test_snapshot_does_not_block_the_next_move(mission):
    saved = dossier(mission)
    assert mission.move("WP01", "claimed").code == 0
    assert saved["snapshot_file"] == str(mission.folder / SNAPSHOT)
    assert (mission.folder / SNAPSHOT).is_file()
    assert mission.project.git("ls-files", "--", f"missions/auth/{SNAPSHOT}") == ""


def test_other_dirty_files_block_and_are_named(mission):
    dossier(mission)
    (mission.project.root / "README.md").write_text("mine")
    for words in (("move", "WP01", "--to", "claimed"), ("claim", "WP01"), ("done", "WP01")):
        refused = mission.project.treadle("task", *words, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (3, "dirty_worktree")
        assert refused.json["error"]["files"] == ["README.md"]
        assert "README.md" in refused.json["error"]["message"]
        assert "snapshot" not in refused.out
    assert mission.lane("WP01") == "planned"


def test_the_filter_does_not_need_the_ignore_file(mission):
    """Wherever a snapshot lies, tracked or not, ignored or not, it never blocks."""
    mission.commit(mission.project.root / ".gitignore", "")
    root = mission.project.root
    for place in (root, mission.folder, root / "a" / "ü b"):
        path = place / SNAPSHOT
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    mission.project.git("add", "-f", f"a/ü b/{SNAPSHOT}")
    mission.project.git("commit", "-q", "-m", "Tracked")
    (root / "a" / "ü b" / SNAPSHOT).write_text('{"changed": 1}')
    assert mission.move("WP01", "claimed").code == 0


def test_everything_else_in_any_shape_is_named(mission):
    root = mission.project.root
    mission.project.git("mv", "README.md", "read me.md")
    (root / "new" / "deep").mkdir(parents=True)
    (root / "new" / "deep" / "ü.txt").write_text("x")
    (root / ".kittify" / "dossiers" / "auth").mkdir(parents=True)
    (root / ".kittify" / "dossiers" / "auth" / "other.json").write_text("x")
    named = mission.move("WP01", "claimed").json["error"]["files"]
    assert sorted(named) == [
        ".kittify/dossiers/auth/other.json",
        "README.md",
        "new/deep/ü.txt",
        "read me.md",
    ]


def test_many_dirty_files_are_counted(mission):
    for number in range(30):
        (mission.project.root / f"f{number:02}").write_text("x")
    error = mission.move("WP01", "claimed").json["error"]
    assert (len(error["files"]), error["count"]) == (20, 30)
    assert "and 10 more" in error["message"]


def test_plain_tasks_move_in_any_tree(mission):
    (mission.project.root / "README.md").write_text("mine")
    task = mission.project.treadle("task", "add", "goal", "--json").json["task_id"]
    assert mission.move(task, "claimed").code == 0


def test_a_tasks_id_is_its_missions_and_its_own(mission):
    assert mission.move("wp01", "claimed", "--mission", "auth").json == {
        "task_id": "auth.WP01",
        "from_lane": "planned",
        "to_lane": "claimed",
    }
    shown = mission.project.treadle("task", "show", "auth.WP02", "--json").json
    assert shown["depends_on"] == ["auth.WP01"]
    assert (shown["goal"], shown["lane"]) == ("Part 2", "planned")


def test_a_short_id_of_two_missions_is_ambiguous(mission):
    Mission(mission.project, "other").create()
    path = mission.project.root / "missions" / "other" / "tasks" / "WP01.md"
    path.parent.mkdir()
    path.write_text("# Other\n")
    refused = mission.project.treadle("task", "show", "WP01", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (2, "mission_ambiguous")
    assert mission.project.treadle("task", "show", "other.WP01", "--json").json["goal"] == "Other"
    for words in (("WP77",), ("auth.WP77",), ("WP01", "--mission", "nope")):
        unknown = mission.project.treadle("task", "show", *words, "--json")
        assert (unknown.code, unknown.json["error"]["code"]) == (1, "not_found")


def test_dependencies_are_enforced_when_a_task_is_claimed(mission):
    for words in (("claim", "WP02"), ("move", "WP02", "--to", "claimed")):
        refused = mission.project.treadle("task", *words, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (3, "task_waiting")
    mission.commit(mission.task(2), "---\ntitle: Free\n---\nDo it.\n")
    assert mission.move("WP02", "claimed").code == 0
    assert mission.project.treadle("task", "show", "WP02", "--json").json["goal"] == "Free"


def test_lanes_lead_where_they_may(mission):
    illegal = mission.move("WP01", "approved")
    assert (illegal.code, illegal.json["error"]["code"]) == (3, "task_wrong_lane")
    assert illegal.json["error"]["legal"] == ["claimed", "blocked", "canceled"]
    assert mission.move("WP01", "parked").json["error"]["code"] == "usage"
    assert mission.move("WP01", "approved", "--force").code == 2
    for lane in ("claimed", "doing", "for-review", "in_review"):
        assert mission.move("WP01", lane).code == 0, lane
    assert mission.move("WP01", "planned").code == 2
    assert mission.project.treadle("task", "done", "WP01").code == 3
    assert mission.move("WP01", "approved").code == 0
    assert mission.project.treadle("task", "done", "WP01").code == 0
    assert mission.move("WP01", "planned", "--force", "--reason", "no").code == 3


def test_a_move_takes_at_most_three_git_processes(mission, tmp_path):
    folder, log = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    real = shutil.which("git")
    (folder / "git").write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    words = ("task", "move", "WP01", "--to", "claimed")
    assert mission.project.treadle(*words, env=env).code == 0
    assert len(log.read_text().splitlines()) == 1
    assert mission.project.treadle("next", "--json", env=env).code == 0
    assert len(log.read_text().splitlines()) == 2


def test_snapshot_says_what_is_there(mission):
    saved = dossier(mission)
    snapshot = json.loads((mission.folder / SNAPSHOT).read_text())
    assert saved.items() >= snapshot.items()
    assert list(snapshot) == [
        *("mission_slug", "snapshot_id", "total_artifacts", "required_artifacts"),
        *("required_present", "required_missing", "optional_artifacts", "optional_present"),
        *("completeness_status", "parity_hash_sha256", "parity_hash_components"),
        *("artifact_summaries", "computed_at"),
    ]
    assert (snapshot["total_artifacts"], snapshot["required_present"]) == (5, 4)
    assert (snapshot["completeness_status"], snapshot["required_missing"]) == ("complete", 0)


def test_snapshot_is_rewritten_only_when_something_changed(mission):
    first, path = dossier(mission), mission.folder / SNAPSHOT
    before = path.stat()
    again = dossier(mission)
    assert (first["written"], again["written"]) == (True, False)
    assert again["computed_at"] == first["computed_at"]
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    path.write_text("{damaged")
    assert dossier(mission)["snapshot_id"] == first["snapshot_id"]
    mission.plan.unlink()
    changed = dossier(mission)
    assert changed["snapshot_id"] != first["snapshot_id"]
    assert changed["required_missing"] == 1
    assert changed["completeness_status"] == "incomplete"
    assert stat.S_ISREG(path.lstat().st_mode)


def test_snapshot_leaves_the_tree_clean(mission):
    dossier(mission)
    assert mission.project.git("status", "--porcelain", "-uall") == ""
    assert git(mission.project.root, "check-ignore", f"missions/auth/{SNAPSHOT}")
