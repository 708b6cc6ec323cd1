"""Normalizing fills in what is missing, touches nothing else, and once is enough."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle import frontmatter
from treadle.errors import FormatError
from treadle.inbox.message import FIELDS, ChainPlace, complete, place_in_name, understand

NEW = "2025022514320000"
NAMED = ChainPlace("2025010203040506", 7)


def normalize(data: bytes, named: ChainPlace | None = None) -> bytes:
    found = understand(data, named, lambda: NEW).message
    return complete(data, found, found.routine or "develop")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2025022514320000-1.md", ChainPlace(NEW, 1)),
        ("20250225143200-12.md", ChainPlace("20250225143200", 12)),
        ("known-3.md", ChainPlace("known", 3)),
        ("unknown-3.md", None),
        ("2025022514320000-1.txt", None),
        ("2025022514320000-1234567890.md", None),
        ("2025022514320000.md", None),
        ("../2025022514320000-1.md", None),
        ("2025022514320000-1\n.md", None),
    ],
)
def test_a_name_gives_chain_and_seq_only_if_it_follows_the_pattern(name, expected):
    assert place_in_name(name, lambda chain: chain == "known") == expected


def test_a_bare_message_takes_chain_and_seq_from_its_name():
    assert normalize(b"Fix it\n", NAMED) == (
        b"---\nid: 2025010203040506-7\nchain: 2025010203040506\nseq: 7\ntype: task\n"
        b"routine: develop\n---\nFix it\n"
    )


def test_a_name_without_the_pattern_begins_a_new_chain():
    found = understand(b"Fix it\n", None, lambda: NEW).message
    assert found.place == ChainPlace(NEW, 0)


def test_present_fields_stay_as_they_are():
    data = b"---\n# mine\nseq: 1  # one\nchain: 2025022514320000\npriority: 'high'\n---\nx\r\r\n"
    assert normalize(data) == (
        b"---\n# mine\nid: 2025022514320000-1\nseq: 1  # one\ntype: task\nroutine: develop\n"
        b"chain: 2025022514320000\npriority: 'high'\n---\nx\r\r\n"
    )


def test_a_complete_message_is_not_changed():
    data = (
        b"\xef\xbb\xbf---\r\nroutine: 'no'\r\nid: c-0\r\nchain: c\r\nseq: 0\r\ntype: spec\r\n"
        b"input_file: specs/1.spec.md\r\n---\r\n"
    )
    assert normalize(data) is data


def test_fields_win_over_the_name_and_it_is_noted():
    found = understand(b"---\nchain: other\nseq: 2\n---\n", NAMED, lambda: NEW)
    assert found.message.place == ChainPlace("other", 2)
    assert [note.type for note in found.notes] == ["id_mismatch"]


@pytest.mark.parametrize("field", ["seq: -1", "seq: x", "seq: [1]", "type: job", "routine: {a: b}"])
def test_a_field_that_means_nothing_is_derived_and_noted(field):
    found = understand(f"---\n{field}\n---\n".encode(), NAMED, lambda: NEW)
    assert (found.message.place, found.message.type) == (NAMED, "task")
    assert [note.type for note in found.notes] == ["field_invalid"]


@pytest.mark.parametrize("chain", ["../x", "a/b", ".x", "a..b", "x" * 129, "[a]", "a b"])
def test_an_unsafe_chain_is_refused(chain):
    with pytest.raises(FormatError) as caught:
        understand(f"---\nchain: {chain}\n---\n".encode(), NAMED, lambda: NEW)
    assert caught.value.code == "unsafe_id"


def test_an_input_file_makes_a_spec():
    assert understand(b"---\ninput_file: specs/a\n---\n", None, lambda: NEW).message.type == "spec"


LINES = st.sampled_from(
    [
        b"id: 1-2",
        b"chain: 2025022514320000",
        b"chain: a..b",
        b"seq: 3 # c",
        b"seq: 007",
        b"seq: no",
        b"type: spec",
        b"type: job",
        b"input_file: specs/x",
        b"routine: no",
        b"routine:",
        b"x-note: 'kept'",
        b"list: [1, 2]",
        b"text: |\n  a\n  b",
        b"# comment",
        b"",
    ]
)
FILES = st.builds(
    lambda bom, eol, lines, body: (
        bom
        + (b"---\n" + b"".join(line + b"\n" for line in lines) + b"---\n").replace(b"\n", eol)
        + body
    ),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.sampled_from([b"\n", b"\r\n"]),
    st.lists(LINES, max_size=6),
    st.binary(max_size=30),
)


@given(st.one_of(st.binary(max_size=200), FILES), st.sampled_from([None, NAMED]))
@example(b"---\r\nseq: 1\r\n---\r\nx\r\r\ny\r\n", None)
def test_once_is_enough_for_any_bytes(data, named):
    try:
        before, rest = frontmatter.read(data)
        once = normalize(data, named)
    except FormatError:
        return
    after, behind = frontmatter.read(once)
    assert normalize(once, named) == once
    assert behind == rest
    unknown = [(key, value) for key, value in before.items() if key not in FIELDS]
    assert [(k, v) for k, v in after.items() if k not in FIELDS] == unknown
    assert after["id"] == f"{after['chain']}-{after['seq']}"
