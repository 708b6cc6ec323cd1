"""Write for people and for programs: only here and in the commands is anything printed."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TextIO

import treadle
from treadle import layout
from treadle import text as words
from treadle.errors import ExitCode, TreadleError
from treadle.ids import mask

Colour = Literal["red", "green", "yellow", "dim", "bold"]

_CODES = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


class Painted(str):
    """Clean words between colours of ours."""

    __slots__ = ()


def line(*parts: object, error: bool = False, flush: bool = False) -> None:
    """Print one line of parts; only what `paint` has coloured reaches the terminal as it is.

    Names of what treadle keeps lead there from where the user stands.
    """
    shown = [part if isinstance(part, Painted) else words.line(str(part)) for part in parts]
    text = " ".join(shown)
    with contextlib.suppress(OSError):
        text = layout.from_here(text, Path(treadle.here or Path.cwd()))
    print(text, file=sys.stderr if error else sys.stdout, flush=flush)


def block(text: str, error: bool = False) -> None:
    """Print a text in its own lines."""
    print(words.block(text.rstrip("\n")), file=sys.stderr if error else sys.stdout)


def print_json(document: object) -> None:
    """Print one JSON document: on one line, or indented on a terminal."""
    print_json_line(document, indent=2 if _is_terminal(sys.stdout) else None)


def print_json_line(document: object, indent: int | None = None) -> None:
    """Print a document in nothing but printable ASCII; whoever follows a stream waits for it."""
    text = json.dumps(document, indent=indent, default=str)
    print(text.replace("\x7f", "\\u007f"), flush=True)


def print_error(error: TreadleError, *, as_json: bool) -> None:
    """Say why treadle cannot go on and what would help."""
    message, fix = mask(error.message), [mask(command) for command in error.fix]
    if as_json:
        base = {"code": error.code, "message": message, "fix": fix}
        print_json({"error": {**base, **error.details, **base}})
        return
    changes = error.details.get("changes")  # what somebody else changed, if that is why
    for change in changes if isinstance(changes, list) else ():
        block(str(change["diff"]), error=True)
    # The bar tells what git or a file says in further lines from what treadle itself says.
    shown = words.block(message).replace("\n", "\n  | ")
    print(f"treadle: {shown}", file=sys.stderr)
    for command in fix:
        line("  try:", command, error=True)


def say(as_json: bool, told: Mapping[str, object], *sentences: str) -> ExitCode:
    """Print a document or sentences."""
    return tell(as_json, told, lines, sentences)


def lines(sentences: Iterable[str]) -> None:
    """Print sentences, a line each."""
    for sentence in sentences:
        line(sentence)


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
        line("treadle: warning:", mask(message), error=True)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns; a cell that is very long moves the rest of its own row only."""
    table = [list(headers), *([_cell(cell) for cell in row] for row in rows)]
    widths = [min(60, max(map(len, column))) for column in zip(*table, strict=True)]
    for number, cells in enumerate(table):
        text = "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True))
        line(paint(text.rstrip(), "bold") if number == 0 else text.rstrip())


def paint(text: str, colour: Colour) -> str:
    """Colour one line for a terminal that wants it."""
    if not wants_colour(sys.stdout, os.environ):
        return text
    return Painted(f"\x1b[{_CODES[colour]}m{words.line(text)}\x1b[0m")


def wants_colour(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Tell whether colours help there: a terminal, and nobody said no."""
    return _is_terminal(stream) and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def can_ask() -> bool:
    """Tell whether somebody sits there who can answer a question."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stderr)


def _cell(value: object) -> str:
    return "" if value is None else words.line(str(value))


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()
