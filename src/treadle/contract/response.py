"""The answer an agent gives: `output.json`."""

from pathlib import PurePosixPath
from typing import Literal

import msgspec
from msgspec import Struct

from treadle.contract import strictjson
from treadle.errors import FormatError


class AgentResponse(Struct, frozen=True, kw_only=True):
    """What an agent says it did."""

    version: Literal[1] = 1
    status: Literal["ok", "fail"]
    summary: str
    files: tuple[str, ...] = ()
    next_actions: tuple[str, ...] = ()
    errors: tuple[object, ...] = ()


def parse(data: bytes, *, source: str) -> tuple[AgentResponse, dict[str, object]]:
    """Return the response and the whole object, unknown keys kept, or raise FormatError."""
    raw = strictjson.load_object(data, source=source)
    if "version" not in raw:
        raise FormatError(f"{source}: version is missing; it must be 1")
    try:
        response = msgspec.convert(raw, AgentResponse)
    except msgspec.ValidationError as error:
        raise FormatError(f"{source}: {error}") from error
    for name in response.files:
        _check_name(name, source)
    return response, raw


def _check_name(name: str, source: str) -> None:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name:
        raise FormatError(f"{source}: files: {name!r} must be a relative path inside the step dir")
