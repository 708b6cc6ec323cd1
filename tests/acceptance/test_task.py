"""Tasks through the real command."""

import pytest


@pytest.fixture
def added(project):
    project.treadle("task", "add", "First", "--ac", "It works", "--verify", "AC1=true")
    project.treadle("task", "add", "Second", "--id", "AUTH-012")
    return project


def test_add_list_show(added):
    rows = added.treadle("task", "list", "--json").json["tasks"]
    assert [(row["task_id"], row["lane"], row["status"]) for row in rows] == [
        ("T-1", "planned", "new"),
        ("AUTH-012", "planned", "new"),
    ]
    shown = added.treadle("task", "show", "T-1", "--json").json
    assert shown["criteria"] == [{"id": "AC1", "text": "It works", "verify": "true"}]
    assert (shown["depends_on"], shown["runs"], shown["owner"]) == ([], [], None)
    assert "$ true" in added.treadle("task", "show", "T-1").out


def test_links_make_tasks_wait_and_circles_are_refused(added):
    added.agent("act", "ok()")
    assert added.treadle("task", "link", "T-1", "--depends-on", "AUTH-012").code == 0
    circle = added.treadle("task", "link", "AUTH-012", "--depends-on", "T-1", "--json")
    assert (circle.code, circle.json["error"]["code"]) == (2, "task_cycle")
    ready = added.treadle("task", "list", "--ready", "--json").json["tasks"]
    assert [row["task_id"] for row in ready] == ["AUTH-012"]
    blocked = added.treadle("run", "T-1", "--json")
    assert blocked.code == 3
    assert "AUTH-012" in blocked.json["error"]["message"]
    assert added.treadle("task", "link", "T-1", "--depends-on", "AUTH-012", "--remove").code == 0
    assert len(added.treadle("task", "list", "--ready", "--json").json["tasks"]) == 2


def test_claim_move_release_done(added):
    claimed = added.treadle("task", "claim", "T-1", "--as", "dev", "--json").json
    assert (claimed["lane"], claimed["owner"]) == ("claimed", "dev")
    taken = added.treadle("task", "claim", "T-1", "--as", "other", "--json")
    assert taken.code == 3
    assert "dev" in taken.json["error"]["message"]
    moved = added.treadle("task", "move", "T-1", "--to", "doing", "--as", "dev", "--json").json
    assert moved == {"task_id": "T-1", "from_lane": "claimed", "to_lane": "in_progress"}
    assert added.treadle("task", "release", "T-1", "--as", "dev").code == 0
    done = added.treadle("task", "done", "T-1", "--json").json
    assert done["to_lane"] == "done"


def test_bad_words_get_the_nearest_right_one(added):
    unknown = added.treadle("task", "show", "T-11", "--json")
    assert (unknown.code, unknown.json["error"]["code"]) == (1, "not_found")
    assert "did you mean T-1?" in unknown.json["error"]["message"]
    lane = added.treadle("task", "move", "T-1", "--to", "dome", "--json")
    assert "did you mean done?" in lane.json["error"]["message"]
    twice = added.treadle("task", "add", "Again", "--id", "T-1", "--json")
    assert twice.json["error"]["code"] == "task_exists"
    bad = added.treadle("task", "add", "Again", "--id", "../../x", "--json")
    assert bad.code == 2


def test_tasks_cannot_be_changed_from_inside_a_run(added):
    env = {"TREADLE_RUN": "20260101-000000-000000", "TREADLE_PROJECT": str(added.root)}
    inside = added.treadle("task", "done", "T-1", "--json", env=env, cwd="/")
    assert (inside.code, inside.json["error"]["code"]) == (3, "inside_run")
    assert added.treadle("task", "list", "--json", env=env, cwd="/").json["tasks"]


def test_tasks_outlive_the_store(added):
    added.treadle("task", "claim", "AUTH-012", "--as", "dev")
    for path in (added.root / ".treadle").glob("treadle.db*"):
        path.unlink()
    rows = added.treadle("task", "list", "--json").json["tasks"]
    assert {row["task_id"]: (row["lane"], row["owner"]) for row in rows} == {
        "T-1": ("planned", None),
        "AUTH-012": ("claimed", "dev"),
    }
    (first,) = [row["criteria"] for row in rows if row["task_id"] == "T-1"]
    assert first == [{"id": "AC1", "text": "It works", "verify": "true"}]
