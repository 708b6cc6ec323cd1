"""Read JSON from strangers: one UTF-8 document, no duplicates, no NaN, no depth bombs."""

import json
import re
from typing import Never

from treadle.errors import FormatError

MAX_DEPTH = 32
# A whole string is one token, so that brackets inside it do not count.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)


def loads(data: bytes, *, source: str, max_depth: int = MAX_DEPTH) -> object:
    """Return the one JSON value in `data`, or raise FormatError naming `source`."""
    text = _decode(data, source)
    _check_depth(text, source, max_depth)
    try:
        value = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except ValueError as error:
        raise FormatError(f"{source}: {error}") from error
    _check_text(value, source)
    return value


def load_object(data: bytes, *, source: str) -> dict[str, object]:
    """Return the one JSON object in `data`, or raise FormatError naming `source`."""
    value = loads(data, source=source)
    if not isinstance(value, dict):
        raise FormatError(f"{source}: expected a JSON object, got {type(value).__name__}")
    return value


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise FormatError(f"{source}: not UTF-8 at byte {error.start}") from error


def _check_depth(text: str, source: str, limit: int) -> None:
    """Count brackets outside strings, because the parser itself recurses."""
    if text.count("[") + text.count("{") <= limit:
        return
    depth = 0
    for token in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > limit:
            raise FormatError(f"{source}: nested deeper than {limit} levels")


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"duplicate key {key!r}")
        result[key] = value
    return result


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def _check_text(value: object, source: str) -> None:
    """Refuse what SQLite, UTF-8 files or a number column could not hold."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, str):
            _check_string(item, source)
        elif isinstance(item, float) and item in (float("inf"), float("-inf")):
            raise FormatError(f"{source}: number out of range")


def _check_string(text: str, source: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FormatError(f"{source}: text with half a surrogate pair") from error
    if "\0" in text:
        raise FormatError(f"{source}: text with a NUL character")
