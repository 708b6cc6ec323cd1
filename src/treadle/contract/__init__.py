"""The words that cross a border, and how JSON from strangers is read.

Who plays in a run, what must be true: one word for each, everywhere; `events` has what happens.
"""

import json
from typing import Literal, NamedTuple, Never, get_args

from treadle.errors import FormatError

Role = Literal["plan", "do", "check", "act"]
StepStatus = Literal["ok", "fail", "skipped"]
RunStatus = Literal["running", "passed", "failed", "stopped"]
VerdictWord = Literal["PASS", "FAIL"]

ROLES: tuple[Role, ...] = get_args(Role)


def follows(role: Role) -> Role:
    """Return the role after `role` when the wheel goes on turning."""
    return ROLES[(ROLES.index(role) + 1) % len(ROLES)]


class Criterion(NamedTuple):
    """What must be true; `verify` is the command that observes it, if there is one."""

    id: str
    text: str
    verify: str | None = None


MAX_DEPTH = 32


def load_object(data: bytes, *, source: str) -> dict[str, object]:
    """Return the one JSON object in `data`, or raise FormatError naming `source`."""
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        value = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        _check(value, MAX_DEPTH)
    except UnicodeDecodeError as error:
        raise FormatError(f"{source}: not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise FormatError(f"{source} is not JSON: {str(error).rpartition(' (')[0]}") from error
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
