"""A review is read as it was typed."""

from datetime import UTC, datetime

import pytest

from treadle.engine.run import comments
from treadle.errors import UsageError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_each_comment_has_its_place_and_its_moment():
    found = comments.review(4, "all", ["a:b.py:12=x=1: why?", "c.py:-3=two\nlines"], NOW)
    assert [(it.path, it.line, it.text) for it in found] == [
        (None, None, "all"),
        ("a:b.py", 12, "x=1: why?"),
        ("c.py", -3, "two\nlines"),
    ]
    assert len({it.at for it in found}) == 3
    assert found[2].place == "step 4, c.py line 3 as it was before"


@pytest.mark.parametrize(("text", "on"), [(None, ["a.py=x"]), (" ", []), (None, ["a:0=x"])])
def test_what_says_nothing_is_refused(text, on):
    with pytest.raises(UsageError):
        comments.review(1, text, on, NOW)
