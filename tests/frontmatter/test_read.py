"""Fields at the top of a file: strings only, nothing clever, errors with their place."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle import frontmatter
from treadle.errors import FormatError
from treadle.frontmatter import find, nodes, read_plain

YAML_ALPHABET = "ab:-# \n\r\t'\"[]{},|>?&*!%@~.0/_\\é"


def fields(text: str):
    return dict(frontmatter.read(f"---\n{text}\n---\nbody\n".encode())[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("routine: no", {"routine": "no"}),
        ("chain: 2025022514320000", {"chain": "2025022514320000"}),
        ("seq: 0123", {"seq": "0123"}),
        ("at: 12:30:45", {"at": "12:30:45"}),
        ("v: 1.10", {"v": "1.10"}),
        ("day: 2025-02-25", {"day": "2025-02-25"}),
        ("empty:", {"empty": ""}),
        ("a: ~", {"a": "~"}),
        ("list: [1, two]", {"list": ["1", "two"]}),
        ("map:\n  x: 1\n  y: {z: no}", {"map": {"x": "1", "y": {"z": "no"}}}),
        ('quoted: "a: b # c"', {"quoted": "a: b # c"}),
        ("text: |\n  one\n  two", {"text": "one\ntwo\n"}),
        ("# only a comment", {}),
        ("", {}),
    ],
)
def test_every_scalar_is_the_text_that_was_written(text, expected):
    assert fields(text) == expected


def test_the_body_is_every_byte_behind_the_closing_fence():
    found = frontmatter.read(b"---\r\na: b\r\n---\r\nx\r\r\ny\xff")
    assert found == ({"a": "b"}, b"x\r\r\ny\xff")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"just text\n",
        b"---\nno end\n",
        b"---\n\nprose between rules\n\n---\nmore\n",
        b"---\n- a\n- list\n---\n",
        b"----\na: b\n---\n",
        b"text\n---\na: b\n---\n",
    ],
)
def test_what_has_no_closed_mapping_is_all_body(data):
    assert frontmatter.read(data) == ({}, data)


def test_a_mark_at_the_start_is_no_part_of_fields_or_body():
    assert frontmatter.read(b"\xef\xbb\xbf---\na: b\n---\nx") == ({"a": "b"}, b"x")
    assert frontmatter.read(b"\xef\xbb\xbfplain")[1] == b"plain"


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: b\na: c", 3, 1, "given twice"),
        ("x:\n  a: b\n  a: c", 4, 3, "given twice"),
        ("a: &x b\nc: *x", 2, 4, "anchors and aliases"),
        ("a: !!python/name:os.system x", 2, 4, "tags"),
        ("a: [b", 3, 1, "expected"),
        ("a: b: c", 2, 5, "mapping values are not allowed"),
        ("a: {b: {c: {d: {e: f}}}}", 2, 16, "nested deeper than 4"),
        ("a: " + "[" * 5000, 2, 7, "nested deeper than 4"),
        ("? [a]\n: b", 2, 3, "a key must be"),
        ("? a\nb: c", 2, 3, "needs a colon"),
        ("a: b\n...", 3, 1, "document markers"),
        ("a: b\n--- x", 3, 1, "only one mapping"),
        ("é: \x07", 2, 4, "not allowed"),
        ("a: b\rc: d", 2, 5, "end of line"),
        ("a: b\u2028c", 2, 5, "end of line"),
    ],
)
def test_what_has_no_plain_meaning_is_refused_with_its_place(text, line, column, words):
    with pytest.raises(FormatError, match=words) as caught:
        fields(text)
    assert caught.value.details == {"line": line, "column": column}


def test_bytes_that_are_no_text_are_refused_with_their_place():
    with pytest.raises(FormatError, match="line 3, column 4: this is not UTF-8"):
        frontmatter.read("---\na: b\né: ".encode() + b"\xff\n---\n")


def test_fields_have_a_limit():
    with pytest.raises(FormatError, match="64 KiB"):
        frontmatter.read(b"---\na: " + b"x" * (64 << 10) + b"\n---\n")


@given(st.text(YAML_ALPHABET, max_size=40))
@example("a: b \n# c\n\nd:\ne: f.g/h - i")
def test_the_short_way_agrees_with_the_parser(text):
    data = f"---\n{text}\n---\n".encode()
    block = find(data)
    assert block is not None
    short = read_plain(data, block)
    if short is not None and (short.entries or not text.strip()):
        assert nodes.read(data, block) == short


LINES = st.sampled_from(
    [
        *("a: b", "b-c: x y", "k: 1 - 2", "_: z", "d:", "e:  f ", "# note: x", "", "f: a/b.c-"),
        *("g: -", "h: 'it: # \\ is'  ", 'i:  "so [x], {}"', "j: ''", "l: 'it''s'", 'm: "\\n"'),
        *("n: |\n  one\n  two  # 'x'", "o: |\n  one\n   two", "p: |\n  one\n\n  two", "q: >\n  x"),
        *(
            "x: [a, 'b c', \"d\"]",
            "y: []",
            "z: [ ]",
            "A: [a , b]",
            "B: [src/**, c.d]",
            "C: [a, b,]",
        ),
        *("D:\n- a\n- 'b'", "E:\n  - a b\n  - c: d", "F:\n  - é (x)\n  - a:b#c", "G:\n- a\n  b"),
        *("H: größe (x): y", "I: größe (x) #1", "J: a:b c#d", "K:\n- a\n - b", "L: a\n- b"),
        *("r: |-\n  x", "s: |", "t: |  \n  x", "u: 'x' # y", "v: |\n  - a\n\n\n", "  w: x"),
    ]
)


@given(st.lists(LINES, max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_the_short_way_agrees_on_what_it_is_made_for(lines, eol):
    data = ("---\n" + "".join(line + eol for line in lines) + "---\n").encode()
    block = find(data)
    assert block is not None
    short = read_plain(data, block)
    if short is not None and short.entries:
        assert nodes.read(data, block) == short


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused(data, fenced):
    data = b"---\n" + data + b"\n---\n" if fenced else data
    try:
        found = frontmatter.read(data)
    except FormatError:
        return
    assert data.endswith(found[1])


@pytest.mark.parametrize(
    "text",
    [
        "title: b\ndependencies: [x, 'y, z']\n",
        "title: b\nowned_files:\n- one\n- two\nother: 1:2\n",
        "history:\n- at: 2026\n  by: me\ntitle: c\nmore: {a: b}\n",
        "title: \"quoted: yes\"\nlane: 'single'\n",
        "lane:\ntitle: c d  \n# comment\ndependencies: []\nowned_files:\n",
        "title: x # comment\n",
        "title: {b: c}\n",
        "title: |\n  text\n",
        "title: - b\n",
        "title: *b\n",
        "title: x: y\n",
        "title: [b, [c]]\n",
        "owned_files:\n  - one: two\n",
        "title: ''\n",
        "title: 'it''s'\n",
        'title: "b\\n"\n',
        "title: @b\n",
        "title: null\n",
        "title: b#c\n",
    ],
)
def test_fields_that_nobody_wants_change_nothing(text):
    data, wanted = f"---\n{text}---\nbody".encode(), frozenset({"title", "lane", "owned_files"})

    def found(*keys):
        try:
            fields = frontmatter.read(data, *keys)[0]
        except FormatError as error:
            return error.message
        return {key: value for key, value in fields.items() if key in wanted}

    assert found(wanted) == found()
