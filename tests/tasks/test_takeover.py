"""What other programs write into a task's files is taken over if the rules allow it."""

import os
from datetime import timedelta

import pytest

from treadle.tasks import claim
from treadle.tasks.files import take_over, take_over_all
from treadle.tasks.task import view_stamp, view_texts


@pytest.fixture
def mail(layout):
    return layout.mail


@pytest.fixture
def said(store, mail, now):
    """Write one of a task's files as another program would, and take it over."""

    def write(task_id, ending, text):
        path = mail.task(task_id, ending)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return take_over(store, mail, task_id, now)

    return write


def test_an_owner_of_an_unowned_task_has_claimed_it(store, add, said, mail):
    task_id = add()
    assert said(task_id, "owner", "owner: ada\nclaimed_at: 2026-01-23T15:00:00Z\n") == []
    assert (store.task(task_id).owner, store.task(task_id).lane) == ("ada", "claimed")
    assert "status: claimed" in mail.task(task_id, "status").read_text()


def test_an_owner_of_a_held_task_is_put_back(store, add, said, mail, now):
    task_id = add()
    claim.claim(store, task_id, "ada", now)
    (why,) = said(task_id, "owner", "owner: bob\n")
    assert "bob cannot own it, ada does" in why
    assert mail.task(task_id, "owner").read_text().startswith("owner: ada\n")
    assert store.task_moves(task_id)[-1].reason == why


def test_a_legal_move_by_the_owner_is_adopted(store, add, said, now):
    task_id = add()
    claim.claim(store, task_id, "ada", now)
    assert said(task_id, "status", f"task_id: {task_id}\nstatus: in_progress\nowner: ada\n") == []
    assert store.task(task_id).lane == "in_progress"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("status: completed\nowner: bob\n", "only ada may change it"),
        ("status: dancing\nowner: ada\n", "there is no status 'dancing'"),
        ("status: new\nowner: ada\n", None),
    ],
)
def test_other_states_are_put_back(store, add, said, mail, now, text, why):
    task_id = add()
    claim.claim(store, task_id, "ada", now)
    found = said(task_id, "status", text)
    assert (why in found[0]) if why else (store.task(task_id).lane == "planned")
    assert (
        view_texts(store, store.task(task_id))["status"] == mail.task(task_id, "status").read_text()
    )


def test_checks_are_not_set_by_hand(store, add, said, mail):
    task_id = add()
    (why,) = said(task_id, "checks", "tests_passed: true\nready_for_merge: true\n")
    assert "not from edits" in why
    assert "ready_for_merge: false" in mail.task(task_id, "checks").read_text()


def test_a_file_that_lags_behind_is_no_edit(store, add, mail, now):
    task_id = add()
    claim.claim(store, task_id, "ada", now)
    old = mail.task(task_id, "status").read_text()
    stamp = view_stamp(store.task(task_id))
    claim.release(store, task_id, claim.Holder("ada"), now + timedelta(seconds=1))
    mail.task(task_id, "status").write_text(old)
    os.utime(mail.task(task_id, "status"), ns=(stamp, stamp))
    assert take_over(store, mail, task_id, now) == []
    assert store.task(task_id).lane == "planned"


def test_tasks_known_only_from_files_are_taken_over(store, mail, now):
    mail.tasks.mkdir(parents=True)
    mail.task("FEAT-021", "md").write_text(
        "# Add it\n\n## Acceptance Criteria\n- Tests: `$ true`\n"
    )
    status = "task_id: FEAT-021\nstatus: in_progress\nowner: engineer\n"
    mail.task("FEAT-021", "status").write_text(status)
    mail.task("..x", "md").write_text("# No")
    mail.task("auth.WP01", "md").write_text("# A mission's, whose own files tell")
    assert take_over_all(store, mail, now) == []
    task = store.task("FEAT-021")
    assert (task.goal, task.lane, task.owner) == ("Add it", "in_progress", "engineer")
    assert task.criteria[0].verify == "true"
    assert store.task_ids() == ["FEAT-021"]


def test_a_tree_elsewhere_brings_no_commands(store, tmp_path, now):
    other = type(store.mail)(tmp_path / "circe")
    other.tasks.mkdir(parents=True)
    other.task("A-1", "md").write_text("# Do\n\n## Acceptance Criteria\n- Tests: `$ rm -rf /`\n")
    take_over_all(store, other, now)
    assert store.task("A-1").criteria[0].verify is None


def test_what_a_task_is_can_be_read_back(store, add, mail):
    task_id = add()
    text = mail.task(task_id, "md").read_text()
    assert text == "# goal\n\n## Acceptance Criteria\n- AC1: goal\n"
