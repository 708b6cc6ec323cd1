"""One line in, one line out, and not a byte of difference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.project import gitignore

ENDS = [None, b"", b"\n", b"a", b"a\n", b"a\r\n", b"a\r\nb", b"a\r", b"\r\n", b"a\n\n"]


@pytest.mark.parametrize("before", ENDS, ids=repr)
def test_file_is_restored_whatever_its_end(before):
    after = gitignore.add(before)
    assert gitignore.has_line(after)
    assert gitignore.remove(after) == before


@given(st.none() | st.text("a/*\r\n#").map(str.encode))
def test_any_file_is_restored(before):
    assert gitignore.remove(gitignore.add(before)) == before


def test_lines_added_later_stay():
    assert gitignore.remove(gitignore.add(b"a\n") + b"b\n") == b"a\nb\n"


def test_line_of_another_style_is_recognised():
    assert gitignore.has_line(b"  " + gitignore.LINE + b"\r\n")
    assert not gitignore.has_line(b"#" + gitignore.LINE)
