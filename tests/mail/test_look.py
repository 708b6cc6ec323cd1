"""Letters are listed and found."""

from datetime import timedelta

import pytest

from treadle.errors import NotFoundError
from treadle.mail import claim, find
from treadle.mail.find import LetterQuery


def test_an_agent_sees_its_own_letters_and_those_to_all_newest_first(store, post, now):
    first = post("a", "ada", "inform", "1")
    post("a", "bob", "inform", "2")
    work = post("a", "all", "fix_bug", task_id="B-1", at=now + timedelta(seconds=1))
    assert [row.name for row in find.list_letters(store, LetterQuery("ada")).rows] == [work, first]


def test_pages_and_filters(store, mail, post, now):
    sent = [post("a", "b", "inform", at=now + timedelta(seconds=n)) for n in range(5)]
    post("a", "b", "question", task_id="B-1")
    assert [row.name for row in find.list_letters(store, LetterQuery(limit=2)).rows] == sent[:2:-1]
    assert len(find.list_letters(store, LetterQuery(intent="question", limit=1)).rows) == 1
    assert [row.intent for row in find.list_letters(store, LetterQuery(task_id="B-1")).rows] == [
        "question"
    ]
    claim.archive(store, mail, find.find_letter(store, sent[0]))
    assert len(find.list_letters(store, LetterQuery()).rows) == 5
    assert len(find.list_letters(store, LetterQuery(boxes=("logs",))).rows) == 1


def test_a_letter_is_found_by_name_path_and_id(store, mail, post):
    name = post("a", "b", "inform")
    row = find.find_letter(store, name)
    for text in (str(mail.new / name), name.removesuffix(".md"), row.message_id):
        assert find.find_letter(store, text) == row
    with pytest.raises(NotFoundError, match="did you mean"):
        find.find_letter(store, name.replace("170000", "170001"))
