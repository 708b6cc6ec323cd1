import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.contract import load_object
from treadle.errors import FormatError

REFUSED = {
    "nothing": b"",
    "not json": b"hello",
    "fenced": b'```json\n{"a": 1}\n```',
    "two documents": b"{} {}",
    "duplicate keys": b'{"status": "ok", "status": "fail"}',
    "nested duplicate": b'{"a": {"b": 1, "b": 2}}',
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": -Infinity}',
    "overflow": b'{"a": 1e999}',
    "not UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "half a surrogate": b'{"a": "\\ud800"}',
    "NUL": b'{"a": "\\u0000"}',
    "huge integer": b'{"a": ' + b"1" * 5000 + b"}",
    "100,000 levels": b'{"a": ' + b"[" * 100_000,
    "33 levels": b'{"a": ' + b"[" * 32 + b"]" * 32 + b"}",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    with pytest.raises(FormatError, match="stdout"):
        load_object(REFUSED[name], source="stdout")


def test_accepts_a_byte_order_mark_and_32_levels():
    assert load_object(b'\xef\xbb\xbf{"a": 1}', source="x") == {"a": 1}
    assert load_object(b'{"a": ' + b"[" * 31 + b"]" * 31 + b"}", source="x")


def test_brackets_inside_strings_do_not_count():
    text = '{"a": "' + "[" * 200 + '\\"{"}'
    assert load_object(text.encode(), source="x") == {"a": "[" * 200 + '"{'}


@given(st.binary(max_size=300))
def test_never_raises_anything_else(data):
    with contextlib.suppress(FormatError):
        load_object(data, source="x")


def test_load_object_wants_an_object():
    with pytest.raises(FormatError, match="expected a JSON object, got list"):
        load_object(b"[]", source="x")
