"""Letters are found by their words."""

import pytest

from treadle.errors import UsageError
from treadle.mail import claim, find
from treadle.store.store import Reader, Store


def names(rows):
    return [row.name for row in rows]


def test_every_word_must_be_there_wherever_the_letter_lies(store, mail, post):
    both = post("a", "b", "inform", "The token refresh times out")
    post("a", "c", "inform", "The token is fine")
    assert names(find.search(store, mail, ["refresh token"], 10).rows) == [both]
    claim.archive(store, mail, find.find_letter(store, both))
    later = post("a", "d", "inform", "refresh every token")
    assert set(names(find.search(store, mail, ["token", "REFRESH"], 10).rows)) == {both, later}


def test_signs_in_words_are_words_too(store, mail, post):
    post("a", "b", "inform", 'say "hello" AND (go)')
    assert len(find.search(store, mail, ['"hello"', "AND", "(go)"], 10).rows) == 1
    assert find.search(store, mail, ['x" OR "a'], 10).rows == []


@pytest.mark.parametrize("opened", [Reader, Store], ids=["inside a run", "outside"])
def test_words_match_whole_and_in_any_case_wherever_it_runs(layout, mail, post, opened):
    post("a", "b", "inform", "Some Tokens broke")
    with opened.open(layout) as store:
        assert len(find.search(store, mail, ["tokens", "SOME"], 10).rows) == 1
        assert find.search(store, mail, ["token"], 10).rows == []
        assert find.search(store, mail, ["ok"], 10).rows == []


def test_no_word_is_no_search(store, mail):
    with pytest.raises(UsageError, match="which words"):
        find.search(store, mail, ["", " "], 5)
