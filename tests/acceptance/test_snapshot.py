"""The snapshot of a mission's files: its types, its keys, its hashes, and what is recomputed."""

import hashlib
import json
import os
import uuid
from datetime import datetime

import pytest

SNAPSHOT = ".kittify/dossiers/auth/snapshot-latest.json"
KEYS = [
    *("artifact_key", "artifact_class", "relative_path", "content_hash_sha256", "size_bytes"),
    *("wp_id", "step_id", "required_status", "is_present", "error_reason", "indexed_at"),
    "provenance",
]
COUNTS = [
    *("total_artifacts", "required_artifacts", "required_present", "required_missing"),
    *("optional_artifacts", "optional_present"),
]


@pytest.fixture
def mission(tasked):
    return tasked


def snapshot(mission) -> dict:
    assert mission.project.treadle("mission", "dossier").code == 0
    return json.loads((mission.folder / SNAPSHOT).read_text())


def test_counts_are_integers_and_the_id_is_a_uuid_made_from_the_hash(mission):
    found = snapshot(mission)
    assert [type(found[key]) for key in COUNTS] == [int] * 6
    assert [found[key] for key in COUNTS] == [5, 4, 4, 0, 1, 1]
    assert str(uuid.UUID(found["snapshot_id"])) == found["snapshot_id"]
    assert datetime.fromisoformat(found["computed_at"]).tzinfo
    (mission.folder / SNAPSHOT).unlink()
    assert snapshot(mission)["snapshot_id"] == found["snapshot_id"]


def test_artifacts_have_every_field_and_are_sorted_by_key(mission):
    found = snapshot(mission)["artifact_summaries"]
    assert {tuple(item) for item in found} == {tuple(KEYS)}
    keys = [item["artifact_key"] for item in found]
    assert (
        keys
        == sorted(keys)
        == [
            *("artifact.meta.json", "input.spec.main", "output.plan.main"),
            *("output.tasks.wp01", "output.tasks.wp02"),
        ]
    )
    task = next(item for item in found if item["artifact_key"] == "output.tasks.wp01")
    assert (task["wp_id"], task["required_status"]) == ("WP01", "required")
    assert (task["is_present"], task["error_reason"]) == (True, None)
    assert task["size_bytes"] == mission.task(1).stat().st_size
    spec = next(item for item in found if item["artifact_key"] == "input.spec.main")
    assert spec["content_hash_sha256"] == hashlib.sha256(mission.spec.read_bytes()).hexdigest()


def test_the_parity_hash_comes_from_what_the_artifacts_say(mission):
    found = snapshot(mission)
    present = {i["relative_path"]: i["content_hash_sha256"] for i in found["artifact_summaries"]}
    assert found["parity_hash_components"] == sorted(present.values())
    lines = "\n".join(f"{path}\t{digest}" for path, digest in sorted(present.items()))
    assert found["parity_hash_sha256"] == f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def test_required_files_that_are_missing_are_counted_and_named(mission):
    mission.plan.unlink()
    for number in (1, 2):
        mission.task(number).unlink()
    said = mission.project.treadle("mission", "dossier")
    found = json.loads((mission.folder / SNAPSHOT).read_text())
    assert (found["required_missing"], found["completeness_status"]) == (2, "incomplete")
    assert [found[key] for key in COUNTS] == [4, 3, 1, 2, 1, 1]
    gone = {i["relative_path"]: i for i in found["artifact_summaries"] if not i["is_present"]}
    assert sorted(gone) == ["plan.md", "tasks/WP*.md"]
    assert {item["error_reason"] for item in gone.values()} == {"not_found"}
    assert {item["content_hash_sha256"] for item in gone.values()} == {""}
    assert "missing: plan.md\nmissing: tasks/WP*.md" in said.out


def test_a_task_that_only_moves_keeps_the_hash_and_one_that_is_edited_does_not(mission):
    """Lanes and agents in a task's file are no content; titles and requirements are."""
    first, path = snapshot(mission)["parity_hash_sha256"], mission.task(1)
    text = path.read_text()
    path.write_text(text.replace("title: Part 1", "title: Part 1\nlane: doing\nagent: claude"))
    assert snapshot(mission)["parity_hash_sha256"] == first
    path.write_text(text.replace("title: Part 1", "title: Part 1\nrequirement_refs: [FR-001]"))
    assert snapshot(mission)["parity_hash_sha256"] != first


def test_new_words_below_the_fields_of_a_task_are_noticed(mission):
    first = mission.project.treadle("mission", "dossier", "--json").json
    mission.task(1).write_text(mission.task(1).read_text() + "\nAnd this.\n")
    again = mission.project.treadle("mission", "dossier", "--json").json
    assert (first["written"], again["written"]) == (True, True)


def test_hidden_files_do_not_count_and_unreadable_ones_say_so(mission):
    before = snapshot(mission)
    (mission.folder / "tasks" / ".gitkeep").write_text("")
    (mission.folder / ".notes").write_text("mine")
    assert snapshot(mission)["snapshot_id"] == before["snapshot_id"]
    (mission.folder / "bild ä.png").write_bytes(b"\x89PNG\xff")
    found = snapshot(mission)["artifact_summaries"]
    (image,) = (item for item in found if not item["is_present"])
    assert (image["error_reason"], image["artifact_key"]) == ("invalid_utf8", "artifact.bild.png")


def test_odd_names_and_things_that_are_no_files_do_no_harm(mission):
    folder = os.fsencode(mission.folder)
    for name in (b"\xff.md", b"a\nb.md", b"-x", b"A.md", b"a.md"):
        with open(os.path.join(folder, name), "w") as file:
            file.write("x")
    os.mkfifo(mission.folder / "pipe")
    (mission.folder / "link.md").symlink_to(mission.spec)
    (mission.folder / "loop").symlink_to(mission.folder)
    found = snapshot(mission)
    assert (found["total_artifacts"], found["completeness_status"]) == (10, "complete")
    assert not mission.project.treadle("mission", "dossier", "--json").json["written"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda found: found | {"required_missing": []},
        lambda found: found | {"artifact_summaries": []},
        lambda found: found | {"parity_hash_sha256": "sha256:" + "0" * 64},
        lambda found: {"mission_slug": "auth"},
        lambda found: [found],
    ],
)
def test_a_damaged_snapshot_is_computed_again(mission, damage):
    whole = snapshot(mission)
    (mission.folder / SNAPSHOT).write_text(json.dumps(damage(whole)))
    assert snapshot(mission) | {"computed_at": ""} | {"artifact_summaries": []} == whole | {
        "computed_at": "",
        "artifact_summaries": [],
    }
