"""What spec-kitty finished or works on is not handed out: its status says where tasks stand."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC, Mission

SLUG = "log-in-01M7N71E"


@pytest.fixture
def kitty(project) -> Mission:
    """A mission of spec-kitty's with three tasks, as its program writes one."""
    mission = Mission(project, SLUG, "kitty-specs")
    mission.spec.parent.mkdir(parents=True)
    meta = {"mission_id": "01M7N71EC2PSKX00DPG8SA7FFV", "slug": SLUG, "topology": "coord"}
    (mission.folder / "meta.json").write_text(json.dumps(meta, indent=2))
    mission.spec.write_text(REAL_SPEC)
    mission.plan.write_text(REAL_PLAN)
    (mission.folder / "tasks").mkdir()
    for number in (1, 2, 3):
        mission.task(number).write_text(
            f"---\nwork_package_id: WP0{number}\n---\n# Part {number}\n"
        )
    project.git("add", ".")
    project.git("commit", "-qm", "From spec-kitty")
    return mission


def at(hours: float = 0) -> str:
    return (datetime.now(UTC) - timedelta(hours=hours)).isoformat()


def status(*lanes: object, hours: float = 0) -> str:
    said = {"actor": "claude", "last_transition_at": at(hours), "force_count": 0}
    packages = {f"WP0{n}": {**said, "lane": lane} for n, lane in enumerate(lanes, 1)}
    return json.dumps({"event_count": 3, "work_packages": packages, "summary": {}})


def events(*lanes: str) -> str:
    lines = [{"event_type": "MissionCreated", "payload": {}}]
    for number, lane in enumerate(lanes, 1):
        for minutes, to in ((2, lane), (60, "planned")):  # not in order: merges do that
            move = {"wp_id": f"WP0{number}", "from_lane": "planned", "to_lane": to}
            lines.append({**move, "at": at(minutes / 60), "event_id": str(minutes), "actor": "a"})
    return "\n".join(map(json.dumps, lines)) + "\n"


def coordination(mission: Mission):
    """Return the folder in the checkout that spec-kitty keeps its status in."""
    folder = mission.project.root / ".worktrees" / f"{SLUG}-coord" / "kitty-specs" / SLUG
    folder.mkdir(parents=True)
    (mission.project.root / ".git" / "info" / "exclude").write_text(".worktrees/\n")
    return folder


@pytest.mark.parametrize("where", ["status", "events", "coordination"])
def test_a_mission_that_spec_kitty_finished_is_complete(kitty, where):
    if where == "events":
        (kitty.folder / "status.events.jsonl").write_text(events("done", "canceled", "done"))
    elif where == "status":
        (kitty.folder / "status.json").write_text(status("done", "canceled", "done"))
    else:
        (kitty.folder / "status.json").write_text(status())
        (coordination(kitty) / "status.json").write_text(status("done", "canceled", "done"))
    for words in ((), ("--agent", "ann")):
        assert kitty.next(*words)["kind"] == "complete"
    assert kitty.project.treadle("mission", "status", "--json").json["tasks"] == {
        "done": 2,
        "canceled": 1,
    }
    rows = kitty.project.treadle("task", "list", "--json").json["tasks"]
    assert [row["lane"] for row in rows] == ["done", "canceled", "done"]


def test_one_that_is_half_done_goes_on_where_it_is(kitty):
    (kitty.folder / "status.json").write_text(status("done", "in_progress", "planned"))
    asked = kitty.next("--agent", "ann")
    assert asked["task_id"] == f"{SLUG}.WP03"  # somebody works on WP02
    waiting = kitty.next("--agent", "bob")
    assert (waiting["kind"], waiting["reason_code"]) == ("blocked", "waiting")
    assert f"{SLUG}.WP02 is in_progress, held by claude" in waiting["reason"]
    (kitty.folder / "status.json").write_text(status("done", "in_progress", "planned", hours=5))
    assert kitty.next("--agent", "bob")["task_id"] == f"{SLUG}.WP02"
    (kitty.folder / "status.json").write_text(status("done", "for_review", "planned"))


def test_what_is_finished_there_later_is_over_here_as_well(kitty):
    (kitty.folder / "status.json").write_text(status("planned", "planned", "planned"))
    assert kitty.next("--agent", "ann")["task_id"] == f"{SLUG}.WP01"
    assert kitty.project.treadle("task", "show", f"{SLUG}.WP02").code == 0
    (kitty.folder / "status.json").write_text(status("done", "for_review", "genesis"))
    assert kitty.next("--agent", "ann")["task_id"] == f"{SLUG}.WP03"
    assert kitty.lane(f"{SLUG}.WP01") == "done"
    assert kitty.lane(f"{SLUG}.WP02") == "for_review"
    moves = kitty.project.treadle("task", "show", f"{SLUG}.WP01", "--json").json["moves"]
    assert (moves[-1]["who"], moves[-1]["reason"]) == ("claude", "as the mission's files say")


def test_what_spec_kitty_accepted_is_accepted(kitty):
    (kitty.folder / "status.json").write_text(status("done", "approved", "approved"))
    kitty.project.git("add", ".")
    kitty.project.git("commit", "-qm", "Approved")
    assert kitty.next()["phase"] == "accept"
    meta = kitty.folder / "meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"accepted_at": at()}))
    kitty.project.git("commit", "-qam", "Accepted")
    assert kitty.next("--agent", "ann")["kind"] == "complete"


@pytest.mark.real
def test_what_spec_kitty_approved_is_accepted_here(kitty):
    (kitty.folder / "status.json").write_text(status("done", "approved", "approved"))
    kitty.project.git("add", ".")
    kitty.project.git("commit", "-qm", "Approved")
    before = (kitty.folder / "status.json").read_bytes()
    assert kitty.next("--result", "success", "--step", "accept")["kind"] == "complete"
    assert (kitty.folder / "status.json").read_bytes() == before
    said = json.loads((kitty.folder / "meta.json").read_text())
    assert said["lanes"] == {"WP01": "done", "WP02": "done", "WP03": "done"}


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("status.json", "}{", "status.json cannot be read"),
        ("status.json", "[]", "it must be a JSON object"),
        ("status.json", '{"work_packages": [1]}', "must have an object under work_packages"),
        ("status.events.jsonl", '{"wp_id": "WP01"}\n{"wp', "status.events.jsonl cannot be read"),
    ],
)
def test_a_broken_status_is_named_and_stops_its_mission_only(kitty, name, text, what):
    Mission(kitty.project).create()
    (kitty.folder / name).write_text(text)
    told = kitty.next("--agent", "ann", "--mission", SLUG)
    assert (told["kind"], told["reason_code"]) == ("blocked", "status_invalid")
    assert f"kitty-specs/{SLUG}/{name}" in told["reason"]
    assert what in told["reason"]
    listed = kitty.project.treadle("mission", "list", "--json").json["missions"]
    assert [bool(item["error"]) for item in listed] == [False, True]
    assert kitty.next("--mission", "auth")["kind"] == "step"
    assert kitty.project.treadle("task", "list").code == 0


@pytest.mark.real
def test_an_unknown_lane_is_named_and_hands_nothing_out(kitty):
    (kitty.folder / "status.json").write_text(status("shipped", "planned", "done"))
    assert kitty.next("--agent", "ann")["task_id"] == f"{SLUG}.WP02"  # it stops nothing else
    (kitty.folder / "status.json").write_text(status("shipped", "done", "done"))
    told = kitty.next("--agent", "ann")
    assert told["kind"] == "blocked"
    assert 'status.json says work_packages.WP01.lane: "shipped"; known: planned' in told["reason"]
    refused = kitty.project.treadle("task", "claim", f"{SLUG}.WP01", "--json")
    assert refused.json["error"]["code"] == "status_invalid"


@pytest.mark.real
def test_the_lane_in_a_tasks_file_counts_where_no_status_does(kitty):
    text = kitty.task(1).read_text().replace("WP01\n", "WP01\nlane: done\n")
    kitty.commit(kitty.task(1), text)
    assert kitty.next("--agent", "ann")["task_id"] == f"{SLUG}.WP02"
    (kitty.folder / "status.json").write_text(status("planned"))
    assert kitty.project.treadle("mission", "status", "--json").json["tasks"]["planned"] == 2
