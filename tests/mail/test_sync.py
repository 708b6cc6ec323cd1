"""Files that other programs write, move and spoil."""

import json
import os
import time

import pytest

from tests.mail.conftest import claim_next
from treadle import markdown
from treadle.mail import effect, find, index
from treadle.store import letters as table
from treadle.tasks.task import definition

NAME = "20251106_140211_coordinator-engineer_implement-feature_FEAT-021.md"
HELLO = (
    "# MESSAGE\nfrom: a\nto: b\nintent: inform\nstatus: new\n"
    "created_at: 2025-11-06T14:02:11Z\n\n## Summary\nHello\n"
)
TEXT = "## Summary\nAdd an endpoint\n\n## Acceptance Criteria\n- Tests\n- Pass: `$ rm -rf /`\n"
NESTED = "## Acceptance Criteria\n- Pass: ``$ true `$ rm -rf /` ``\n- Too `$$ rm -rf /`\n"


def settle(mail, folder="NEW_MESSAGES"):
    """Let a folder and its files look as if they had been written a while ago."""
    past = time.time_ns() - 10_000_000_000
    for path in [*(mail.root / folder).iterdir(), mail.root / folder]:
        os.utime(path, ns=(past, past), follow_symlinks=False)


def test_a_file_without_headers_is_a_full_citizen(drop, store, mail, now):
    assert drop(NAME, TEXT) == []
    task = store.task("FEAT-021")
    assert (task.goal, task.lane) == ("Add an endpoint", "planned")
    assert [item.text for item in task.criteria] == ["Tests", "Pass: rm -rf /"]
    assert claim_next(store, mail, "engineer", now).row.name == NAME


def test_commands_in_letters_are_never_taken_over(drop, store):
    drop(NAME, TEXT)
    assert [item.verify for item in store.task("FEAT-021").criteria] == [None, None]
    drop(NAME.replace("FEAT-021", "FEAT-022"), NESTED)
    found = store.task("FEAT-022")
    # Nor are they when the task's own file is read, after the store is lost.
    for criteria in (found.criteria, markdown.criteria(definition(found))):
        assert [item.verify for item in criteria] == [None, None]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("hello.md", "no header", "no header from"),
        (NAME, "# MESSAGE\nfrom: a\nfrom: b\n\n", "twice"),
        ("x.md", "# MESSAGE\nfrom: ../../etc\nto: b\n\n", "no header intent"),
        ("bad\udcff.md", "# MESSAGE\n", "its name"),
        ("two\nlines.md", "# MESSAGE\n", "its name"),
    ],
)
def test_a_malformed_file_is_set_aside_with_its_reason(drop, store, mail, now, name, text, why):
    drop(name, text)
    settle(mail)
    (said,) = effect.refresh(store, mail, now)
    assert why in said
    reason = json.loads((mail.quarantine / f"{name}.reason.json").read_text())
    assert why in reason["reason"]
    assert (mail.quarantine / name).read_text() == text
    assert effect.refresh(store, mail, now) == []


def test_an_agents_folder_may_be_spelled_in_capitals(drop, store, mail, tree):
    drop("x.md", HELLO, "AGENTS/Engineer/INBOX")
    assert [row.agent for row in table.page(store, "inbox", 9, "engineer")] == ["engineer"]
    assert find.find_letter(store, "x.md", "engineer").folder == "AGENTS/Engineer/INBOX"


def test_folders_that_no_agent_can_have_are_left_alone(drop, store, mail, now):
    for name in ("two words", "bad\udcff", "all"):
        (mail.agents / name / "INBOX").mkdir(parents=True)
    (mail.logs / "bad\udcff").mkdir(parents=True)
    drop("x.md", HELLO.replace("to: b", "to: all"))
    assert effect.refresh(store, mail, now) == []
    assert not list(mail.agents.rglob("*.md"))


def test_a_file_still_being_written_is_left_alone(drop, mail):
    assert drop("hello.md", "# MESS") == []
    assert (mail.new / "hello.md").exists()


def test_links_pipes_and_giants_are_set_aside_unread(drop, store, mail, now, tmp_path):
    drop(
        "fine.md",
        "# MESSAGE\nfrom: a\nto: b\nintent: inform\nstatus: new\n"
        "created_at: 2025-11-21T17:00:00Z\n\n",
    )
    secret = tmp_path / "secret"
    secret.write_text("key")
    (mail.new / "link.md").symlink_to(secret)
    os.mkfifo(mail.new / "pipe.md")
    with (mail.new / "giant.md").open("wb") as file:
        file.truncate(1 << 30)
    settle(mail)
    assert len(effect.refresh(store, mail, now)) == 3
    assert [row.name for row in find.list_letters(store, find.LetterQuery()).rows] == ["fine.md"]
    assert secret.read_text() == "key"


def test_a_letter_moved_by_hand_is_followed_without_a_second_effect(drop, store, mail, now):
    drop(NAME, TEXT)
    mail.inbox("engineer").mkdir(parents=True, exist_ok=True)
    (mail.new / NAME).rename(mail.inbox("engineer") / NAME)
    effect.refresh(store, mail, now)
    (row,) = table.named(store, NAME)
    assert (row.box, row.agent) == ("inbox", "engineer")
    assert store.task("FEAT-021").owner == "engineer"


def test_a_removed_file_is_forgotten(drop, store, mail, now):
    drop(NAME, TEXT)
    (mail.new / NAME).unlink()
    effect.refresh(store, mail, now)
    assert table.named(store, NAME) == []


def test_nothing_is_read_again_while_no_folder_changed(drop, store, mail, now):
    drop(NAME, TEXT)
    settle(mail)
    effect.refresh(store, mail, now)
    assert not index.is_stale(store, mail)
    (mail.new / "x.md").write_text("y")
    assert index.is_stale(store, mail)


def test_the_index_can_be_rebuilt_from_nothing(post, store, mail, now):
    names = {post("a", "b", "inform", str(number)) for number in range(5)}
    table.forget(store, table.page(store, "new", 10))
    effect.rebuild(store, mail, now)
    assert {row.name for row in find.list_letters(store, find.LetterQuery()).rows} == names


def test_an_unknown_intent_is_read_all_the_same(drop, store):
    drop("20251106_140211_a-b_dance.md", "x")
    assert [row.intent for row in find.list_letters(store, find.LetterQuery()).rows] == ["dance"]
