"""What is sent is checked first, and lies whole where it belongs."""

import pytest

from treadle.errors import BlockedError, NotFoundError, UsageError
from treadle.mail import effect
from treadle.mail.effect import Draft
from treadle.mail.letter import parse


def test_a_letter_lies_in_new_messages_and_its_addressee_has_folders(post, mail, tree):
    name = post("coordinator", "engineer", "inform", "Hello")
    assert tree() == [f"NEW_MESSAGES/{name}"]
    assert name == "20251121_170000_coordinator-engineer_inform.md"
    assert parse((mail.new / name).read_text()).body == "## Summary\nHello\n"
    assert mail.inbox("engineer").is_dir()


def test_two_letters_of_one_name_are_two_files(post, tree):
    for _ in range(3):
        post("a", "b", "inform", "x")
    assert [path.rpartition("_")[2] for path in tree()] == [
        "inform.md",
        "inform~002.md",
        "inform~003.md",
    ]


def test_no_dot_file_stays_behind(post, mail):
    post("a", "b", "inform")
    assert [path.name for path in mail.new.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        (Draft("a", "b", "implement_featur", ""), "did you mean implement_feature"),
        (Draft("a", "b", "fix_bug", ""), "needs --task"),
        (Draft("a/b", "c", "inform", ""), "is not an agent's name"),
        (Draft("all", "c", "inform", ""), "cannot write"),
        (Draft("a", "..", "inform", ""), "is not an agent's name"),
        (Draft("a", "x" * 10_000, "inform", ""), "is not an agent's name"),
        (Draft("a", "b", "inform", "", task_id="../x"), "is not a task id"),
        (Draft("a", "b", "inform", "", status="dine"), "did you mean done|there is no status"),
        (Draft("a", "b", "test_results", "", task_id="T-1"), "need --status"),
        (Draft("a", "b", "inform", "x" * (1 << 20)), "at most"),
    ],
)
def test_bad_drafts_are_refused_and_nothing_is_written(layout, now, draft, said):
    with pytest.raises(UsageError, match=said):
        effect.send(layout, draft, now)
    assert not layout.mail.new.exists()


def test_upper_case_is_lowered_and_rooster_is_the_human(post, tree):
    post("Engineer", "ROOSTER", "inform", "x")
    assert tree() == ["NEW_MESSAGES/20251121_170000_engineer-human_inform.md"]


def test_configured_intents_are_accepted(layout, now):
    sent = effect.send(layout, Draft("a", "b", "dance", ""), now, ["dance"])
    assert sent.letter.intent == "dance"


def test_a_claim_by_letter_that_is_refused_is_not_sent(post, layout, store, now, tree):
    post("boss", "all", "fix_bug", "Mend", task_id="B-1")
    post("ada", "boss", "claim_task", task_id="B-1")
    assert store.task("B-1").owner == "ada"
    before = tree()
    with pytest.raises(BlockedError, match="held by ada"):
        effect.send(layout, Draft("bob", "boss", "claim_task", "", "B-1"), now)
    with pytest.raises(NotFoundError):
        effect.send(layout, Draft("bob", "boss", "claim_task", "", "B-2"), now)
    assert tree() == before
    post("ada", "boss", "release_task", task_id="B-1")
    assert store.task("B-1").lane == "planned"
