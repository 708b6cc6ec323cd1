"""One line in, one line out, and not a byte of difference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.project.setup import BLOCK, IGNORED

ENDS = [None, b"", b"\n", b"a", b"a\n", b"a\r\n", b"a\r\nb", b"a\r", b"\r\n", b"a\n\n"]


@pytest.mark.parametrize("addition", [IGNORED, BLOCK], ids=["line", "block"])
@pytest.mark.parametrize("before", ENDS, ids=repr)
def test_file_is_restored_whatever_its_end(before, addition):
    after = addition.add(before)
    assert addition.is_in(after)
    assert addition.take_out(after) == before


@pytest.mark.parametrize("addition", [IGNORED, BLOCK], ids=["line", "block"])
@given(before=st.none() | st.text("a/*\r\n#").map(str.encode))
def test_any_file_is_restored(before, addition):
    assert addition.take_out(addition.add(before)) == before


def test_lines_added_later_stay():
    assert IGNORED.take_out(IGNORED.add(b"a\n") + b"b\n") == b"a\nb\n"


def test_line_of_another_style_is_recognised():
    assert IGNORED.is_in(b"  " + IGNORED.begin + b"\r\n")
    assert not IGNORED.is_in(b"#" + IGNORED.begin)
