"""What other programs write into a task's files is taken over if the rules allow it."""

import os
from datetime import timedelta

import pytest

from treadle.ids import utc
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, lanes, statefile
from treadle.tasks.files import take_over, take_over_all
from treadle.tasks.task import insert, stamp


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
        ("status: claimed\nowner: bob\n", "ada owns it, not bob"),
        ("status: dancing\nowner: ada\n", "there is no status 'dancing'"),
        ("status: new\nowner: ada\n", None),
    ],
)
def test_other_states_are_put_back(store, add, said, mail, now, text, why):
    task_id = add()
    claim.claim(store, task_id, "ada", now)
    found = said(task_id, "status", text)
    assert (why in found[0]) if why else (store.task(task_id).lane == "planned")
    now_at = f"status: {lanes.status(store.task(task_id).lane)}\n"
    assert now_at in mail.task(task_id, "status").read_text()


def test_checks_are_not_set_by_hand(store, add, said, mail):
    task_id = add()
    (why,) = said(task_id, "checks", "tests_passed: true\nready_for_merge: true\n")
    assert "not from edits" in why
    assert "ready_for_merge: false" in mail.task(task_id, "checks").read_text()


def test_a_file_that_lags_behind_is_no_edit(store, add, mail, now):
    task_id = add()
    claim.claim(store, task_id, "ada", now)
    old = mail.task(task_id, "status").read_text()
    dated = stamp(store.task(task_id).updated_at)
    claim.release(store, task_id, claim.Holder("ada"), now + timedelta(seconds=1))
    mail.task(task_id, "status").write_text(old)
    os.utime(mail.task(task_id, "status"), ns=(dated, dated))
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
    assert take_over_all(store, mail, now).said == []
    task = store.task("FEAT-021")
    assert (task.goal, task.lane, task.owner) == ("Add it", "in_progress", "engineer")
    assert task.criteria[0].verify == "true"
    assert store.task_ids() == ["FEAT-021"]


def test_a_tree_elsewhere_brings_no_commands(store, tmp_path, now):
    other = type(store.mail)(tmp_path / "circe")
    other.tasks.mkdir(parents=True)
    other.task("A-1", "md").write_text("# Do\n\n## Acceptance Criteria\n- Tests: `$ rm -rf /`\n")
    other.task("A-1", "status").write_text("status: new\n")
    take_over_all(store, other, now)
    assert store.task("A-1").criteria[0].verify is None


def test_what_a_task_is_can_be_read_back(store, add, mail):
    task_id = add()
    text = mail.task(task_id, "md").read_text()
    assert text == "# goal\n\n## Acceptance Criteria\n- AC1: goal\n"


def test_a_change_whose_files_a_kill_prevented_is_shown_by_the_next_look(store, add, mail, now):
    task_id = add()
    before = store.task(task_id)
    after = claim.given(before, "claimed", claim.new_claim("ada", now), now)
    store.swap_task(before, after._replace(updated_at=utc(now + timedelta(seconds=1))))
    assert "status: new" in mail.task(task_id, "status").read_text()
    assert take_over_all(store, mail, now).said == []
    assert "status: claimed\nowner: ada\n" in mail.task(task_id, "status").read_text()
    assert mail.task(task_id, "owner").read_text().startswith("owner: ada\n")


def test_a_task_whose_files_a_kill_prevented_gets_them_from_the_next_look(store, mail, now):
    row = TaskRow("K-1", "Goal", criteria=(), created_at=utc(now), updated_at=utc(now))
    store.write(lambda tx: insert(tx, row))
    take_over_all(store, mail, now)
    assert "status: new" in mail.task("K-1", "status").read_text()


def test_an_edit_that_was_read_before_a_kill_is_taken_over_by_the_next_look(store, add, mail, now):
    task_id = add()
    claim.claim(store, task_id, "ada", now)
    path = mail.task(task_id, "status")
    path.write_text("status: in_progress\nowner: ada\n")
    store.mark_files([statefile.read(path).row(task_id, "")])
    take_over_all(store, mail, now)
    assert store.task(task_id).lane == "in_progress"


def test_an_edit_that_nobody_has_read_survives_a_change(store, add, mail, now):
    task_id = add()
    claim.claim(store, task_id, "ada", now)
    mail.task(task_id, "status").write_text("status: blocked\nowner: ada\n")
    claim.move_task(store, task_id, "in_progress", claim.Holder("ada"), now)
    take_over_all(store, mail, now)
    assert store.task(task_id).lane == "blocked"


def test_an_empty_file_may_still_be_being_written(store, add, mail, now):
    task_id = add()
    claim.claim(store, task_id, "ada", now)
    path = mail.task(task_id, "status")
    path.write_text("")
    assert take_over_all(store, mail, now).said == []
    assert path.read_text() == ""
    path.write_text("status: in_progress\n")
    take_over_all(store, mail, now)
    assert store.task(task_id).lane == "in_progress"
    path.write_text("")
    os.utime(path, (0, 0))
    assert "there is no status ''" in take_over_all(store, mail, now).said[0]
    assert "status: in_progress" in path.read_text()


def test_files_keep_their_mode_and_their_line_ends(store, add, mail, now):
    task_id = add()
    path = mail.task(task_id, "status")
    path.write_bytes(b"status: new\r\nwho: knows\xff\r\n")
    path.chmod(0o664)
    take_over_all(store, mail, now)
    claim.claim(store, task_id, "ada", now)
    data = path.read_bytes()
    assert data.startswith(b"status: claimed\r\nwho: knows\xff\r\ntask_id: ")
    assert data.count(b"\n") == data.count(b"\r\n") > 4
    assert path.stat().st_mode & 0o777 == 0o664


def test_a_task_whose_file_is_still_empty_is_looked_at_again(store, mail, now):
    mail.tasks.mkdir(parents=True)
    mail.task("E-1", "status").write_text("")
    assert take_over_all(store, mail, now).said == []
    assert store.task("E-1") is None
    mail.task("E-1", "status").write_text("status: completed\nowner: ada\nupdated_at: soon\n")
    take_over_all(store, mail, now)
    assert (store.task("E-1").lane, store.task("E-1").owner) == ("done", "ada")
