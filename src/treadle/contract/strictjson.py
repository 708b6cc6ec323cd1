"""Read JSON from strangers: one UTF-8 document, no duplicates, no NaN, no depth bombs."""

import json
from typing import Never

from treadle.errors import FormatError

MAX_DEPTH = 32


def load_object(data: bytes, *, source: str) -> dict[str, object]:
    """Return the one JSON object in `data`, or raise FormatError naming `source`."""
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        value = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        _check(value, MAX_DEPTH)
    except UnicodeDecodeError as error:
        raise FormatError(f"{source}: not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        raise FormatError(f"{source}: {error}") from error
    except RecursionError as error:
        raise FormatError(f"{source}: nested deeper than {MAX_DEPTH} levels") from error
    if not isinstance(value, dict):
        raise FormatError(f"{source}: expected a JSON object, got {type(value).__name__}")
    return value


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"duplicate key {key!r}")
        result[key] = value
    return result


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def _check(value: object, levels: int) -> None:
    """Refuse what SQLite, UTF-8 files, a number column or a recursive reader could not hold."""
    if isinstance(value, dict | list):
        if not levels:
            raise RecursionError
        for item in value:
            _check(item, levels - 1)
        for item in value.values() if isinstance(value, dict) else ():
            _check(item, levels - 1)
    elif isinstance(value, str):
        _check_string(value)
    elif isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ValueError("number out of range")


def _check_string(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("text with half a surrogate pair") from None
    if "\0" in text:
        raise ValueError("text with a NUL character")
