"""Setting a field changes that field and not one other byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import frontmatter
from treadle.errors import FormatError
from treadle.frontmatter import quote, set_fields

ORDER = ("id", "chain", "seq", "type")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("text\n", "---\nid: 1-0\nseq: 0\n---\ntext\n"),
        ("text\r\n", "---\r\nid: 1-0\r\nseq: 0\r\n---\r\ntext\r\n"),
        ("---\nopen\n", "---\nid: 1-0\nseq: 0\n---\n---\nopen\n"),
        ("---\n---\nx", "---\nid: 1-0\nseq: 0\n---\nx"),
        ("---\nx: y\n---\n", "---\nid: 1-0\nseq: 0\nx: y\n---\n"),
        ("---\n  x: y\n---\n", "---\n  id: 1-0\n  seq: 0\n  x: y\n---\n"),
        ("---\n# hi\nx: y\n---\n", "---\n# hi\nid: 1-0\nseq: 0\nx: y\n---\n"),
        (
            "---\nchain: 1 # c\n# of x\nx: y\n---\n",
            "---\nid: 1-0\nchain: 1 # c\nseq: 0\n# of x\nx: y\n---\n",
        ),
        ("---\nseq: 7 # no\nid: '2'\n---\n", "---\nseq: 0 # no\nid: 1-0\n---\n"),
        ("---\nseq:\nid: 1-0\n---\n", "---\nseq: 0\nid: 1-0\n---\n"),
        ("---\nseq: |\n  5\n\nid: 1-0\n---\n", "---\nseq: 0\nid: 1-0\n---\n"),
        ("---\nseq:\n- 1\n- 2\nid: 1-0\n---\n", "---\nseq:\n  0\nid: 1-0\n---\n"),
        ("---\nseq: [1,\n  2] # x\nid: 1-0\n---\n", "---\nseq:   0 # x\nid: 1-0\n---\n"),
        ("---\n{chain: a}\n---\n", "---\n{id: 1-0, seq: 0, chain: a}\n---\n"),
        ("---\n{}\n---\n", "---\n{id: 1-0, seq: 0, }\n---\n"),
        ("\ufeff---\nid: 1-0\nseq: 0\n---\n", "\ufeff---\nid: 1-0\nseq: 0\n---\n"),
        ("\ufeff---\nid: 1-0\n---\n", "---\nid: 1-0\nseq: 0\n---\n"),
    ],
)
def test_a_field_is_set_where_it_belongs(before, after):
    assert set_fields(before.encode(), {"id": "1-0", "seq": "0"}, ORDER).decode() == after


def test_nothing_to_set_changes_nothing():
    data = b"\xef\xbb\xbf---\r\na: b\r\n---\r\nx\r\r\n"
    assert set_fields(data, {}) == set_fields(data, {"a": "b"}) == data


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_a_value_is_written_so_that_it_is_read_again(value):
    assert frontmatter.read(f"---\na: {quote(value)}\n---\n".encode())[0] == {"a": value}


PIECES = st.sampled_from(
    [
        b"id: x",
        b"seq: 3  # third",
        b"chain:",
        b"type: |\n  a\n  b\n",
        b"seq:\n- 1\n- {a: b}",
        b"id: [a,\n b]",
        b"'id' : \"q\"",
        b"? type\n: z",
        b"extra: >-\n  folded\n  text\n\n",
        "né: ü".encode(),
        b"# note",
        b"",
        b"{id: x, seq: [1]}",
        b"deep:\n  a:\n    - b\n  # end\n",
        b"chain: a\n  b",
    ]
)


@given(
    st.lists(PIECES, max_size=5),
    st.binary(max_size=20),
    st.dictionaries(st.sampled_from(ORDER), st.text("a0-./ :#é", max_size=6), max_size=4),
    st.sampled_from([b"", b"  "]),
)
def test_other_fields_and_the_body_stay(pieces, body, changes, indent):
    block = b"".join(indent + line + b"\n" for piece in pieces for line in piece.split(b"\n"))
    data = b"---\n" + block + b"---\n" + body
    try:
        before, rest = frontmatter.read(data)
    except FormatError:
        return
    after, behind = frontmatter.read(set_fields(data, changes, ORDER))
    assert behind == rest
    assert after == {**before, **changes}
    assert [key for key in after if key in before] == list(before)
