"""Letters are acknowledged, archived, and never deleted."""

from datetime import timedelta

import pytest

from tests.mail.conftest import claim_next
from treadle.errors import BlockedError
from treadle.mail import claim, find


def test_work_goes_to_the_workspace_then_to_the_logs(store, mail, post, now, tree):
    name = post("boss", "ada", "fix_bug", task_id="B-1")
    row = claim_next(store, mail, "ada", now).row
    row = claim.acknowledge(store, mail, row, "ada")
    assert tree() == [f"AGENTS/ada/WORKSPACE/{name}"]
    claim.acknowledge(store, mail, row, "ada")
    assert tree() == [f"LOGS/{name}"]


def test_an_unclaimed_letter_goes_to_the_logs_by_its_addressee(store, mail, post, tree):
    name = post("a", "ada", "inform")
    with pytest.raises(BlockedError, match="is ada's to acknowledge"):
        claim.acknowledge(store, mail, find.find_letter(store, name), "bob")
    claim.acknowledge(store, mail, find.find_letter(store, name), "ada")
    assert tree() == [f"LOGS/{name}"]


def test_a_broadcast_stays_until_everyone_has_acknowledged(store, mail, post, tree):
    for agent in ("ada", "bob", "boss"):
        mail.inbox(agent).mkdir(parents=True)
    name = post("boss", "all", "inform", "Lunch")
    copies = [f"AGENTS/{x}/INBOX/{name.replace('all', x)}" for x in ("ada", "bob")]
    assert tree() == [*copies, f"NEW_MESSAGES/{name}"]
    claim.acknowledge(store, mail, find.find_letter(store, name, "ada"), "ada")
    assert f"NEW_MESSAGES/{name}" in tree()
    claim.acknowledge(store, mail, find.find_letter(store, name, "bob"), "bob")
    assert [path.partition("/")[0] for path in tree()] == ["LOGS"] * 3


def test_all_letters_of_a_task_are_archived(store, mail, post, now, tree):
    post("boss", "ada", "fix_bug", task_id="B-1")
    claim_next(store, mail, "ada", now)
    post("ada", "boss", "status_update", task_id="B-1")
    post("ada", "boss", "inform")
    claim.archive_task(store, mail, "B-1")
    assert sorted(path.partition("/")[0] for path in tree()) == ["LOGS", "LOGS", "NEW_MESSAGES"]


def test_no_letter_is_moved_behind_a_link_that_leads_out(store, mail, post, now, tree, tmp_path):
    name, outside = post("a", "ada", "inform"), tmp_path / "outside"
    claim.archive(store, mail, find.find_letter(store, name))
    outside.mkdir()
    (mail.logs / "2025-11").symlink_to(outside)
    with pytest.raises(BlockedError, match="leads out"):
        claim.archive_older(store, mail, timedelta(days=30), now + timedelta(days=31))
    assert not list(outside.iterdir())
    (mail.logs / "2025-11").unlink()
    claim.archive_older(store, mail, timedelta(days=30), now + timedelta(days=31))
    assert tree() == [f"LOGS/2025-11/{name}"]


def test_old_letters_are_sorted_by_month_and_still_found(store, mail, post, now, tree):
    name = post("a", "ada", "inform")
    claim.archive(store, mail, find.find_letter(store, name))
    assert claim.archive_older(store, mail, timedelta(days=30), now) == []
    claim.archive_older(store, mail, timedelta(days=30), now + timedelta(days=31))
    assert tree() == [f"LOGS/2025-11/{name}"]
    assert find.open_letter(mail, find.find_letter(store, name)).sender == "a"
