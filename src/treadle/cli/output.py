"""Write for people and for programs: only here and in the commands is anything printed."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from treadle.errors import ExitCode, TreadleError
from treadle.hints import Literal, TextIO

Colour = Literal["red", "green", "yellow", "dim", "bold"]

_CODES = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}
# What would move the cursor, ring, or reorder text when a goal or an agent's words are shown.
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"


def print_json(document: object) -> None:
    """Print one JSON document: on one line, or indented on a terminal."""
    indent = 2 if _is_terminal(sys.stdout) else None
    print(json.dumps(document, indent=indent, default=str))


def print_error(error: TreadleError, *, as_json: bool) -> None:
    """Say why treadle cannot go on and what would help."""
    if as_json:
        base = {"code": error.code, "message": error.message, "fix": list(error.fix)}
        print_json({"error": {**base, **error.details, **base}})
        return
    print(f"treadle: {clean(error.message)}", file=sys.stderr)
    for command in error.fix:
        print(f"  try: {clean(command)}", file=sys.stderr)


def say(as_json: bool, told: Mapping[str, object], *sentences: str) -> ExitCode:
    """Print a document or sentences."""
    return tell(as_json, told, print, "\n".join(map(clean, sentences)))


def tell(
    as_json: bool, told: Mapping[str, object], show: Callable[..., object], *about: object
) -> ExitCode:
    """Print a document, or let `show` tell a person."""
    if as_json:
        print_json(told)
    else:
        show(*about)
    return ExitCode.DONE


def table(
    as_json: bool,
    told: Mapping[str, object],
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    nothing: str,
) -> ExitCode:
    """Print a document or a table, or say that there is nothing to list."""
    return tell(as_json, told, print_table, headers, rows) if rows else say(as_json, told, nothing)


def warn(*messages: str) -> None:
    """Print warnings where they do not disturb the answer."""
    for message in messages:
        print(f"treadle: warning: {clean(message)}", file=sys.stderr)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns; the last one may be as wide as it likes."""
    lines = [list(headers), *([clean(_cell(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        text = "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        print(paint(text.rstrip(), "bold") if number == 0 else text.rstrip())


def paint(text: str, colour: Colour) -> str:
    """Colour a text for a terminal that wants it."""
    if not wants_colour(sys.stdout, os.environ):
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def wants_colour(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Tell whether colours help there: a terminal, and nobody said no."""
    return _is_terminal(stream) and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def clean(text: str) -> str:
    """Return a text that shows itself and does nothing else to the terminal."""
    return re.sub(_CONTROL, lambda found: f"\\x{ord(found[0]):02x}", text)


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("\n", " ").replace("\t", " ")


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()
