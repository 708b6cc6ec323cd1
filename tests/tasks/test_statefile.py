"""Lines of state files: ours change, others' stay."""

import pytest

from treadle.tasks.statefile import values, with_values


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("", {"a": "1", "b": None, "c": "3"}, "a: 1\nc: 3\n"),
        ("a: 1", {"a": "1"}, "a: 1"),
        ("a: 1", {"a": "2", "b": "3"}, "a: 2\nb: 3\n"),
        ("a: 1 # why\n", {"a": "2"}, "a: 2 # why\n"),
        ("a:\n", {"a": "2"}, "a: 2\n"),
        ("a : 'x'\n", {"a": "x"}, "a : 'x'\n"),
        ("b: 1\nz: 9\n", {"a": "0", "b": "1", "c": "2"}, "b: 1\nz: 9\na: 0\nc: 2\n"),
        ("a: 1\nb: 2\n", {"a": "1", "b": None, "c": "3"}, "a: 1\nc: 3\n"),
        ("b: 2\n", {"b": None, "c": "3"}, "c: 3\n"),
        ("x: |\n  a: 5\na: 1\n", {"a": "2"}, "x: |\n  a: 5\na: 2\n"),
        ("a: 1\r\n", {"a": "2", "b": "3"}, "a: 2\r\nb: 3\r\n"),
        ("a: 1\n\n# end\n", {"a": None}, "\n# end\n"),
        ("---\na: 1\u2028b: 2\n", {"b": "3"}, "---\na: 1\u2028b: 2\nb: 3\n"),
    ],
)
def test_only_the_lines_of_wanted_keys_change(text, wanted, expected):
    assert with_values(text, wanted) == expected
    assert with_values(expected, wanted) == expected
    assert wanted.items() <= ({key: None for key in wanted} | values(expected)).items()
