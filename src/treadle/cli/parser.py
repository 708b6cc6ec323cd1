"""Read command lines; what is wrong with one becomes an error like any other."""

import os
import re
from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from treadle.errors import UsageError
from treadle.ids import nearest

# More than anybody means, less than what a database or a clock cannot hold.
_MOST = 1_000_000_000

AddAction = Callable[[str, str, object], ArgumentParser]


class Parser(ArgumentParser):
    """A parser that knows --json, raises UsageError and never guesses at shortened options."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": _formatter, **kwargs})
        self.register("type", int, lambda text: _bounded(int(text), -_MOST))
        self.register("type", float, lambda text: _bounded(float(text), 0))
        self.add_argument("--json", action="store_true", help="Answer with one JSON document")

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, with the nearest word that would be right."""
        raise UsageError(
            f"{self.prog}: {message}{self._hint(message)}", fix=[f"{self.prog} --help"]
        )

    def _hint(self, message: str) -> str:
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        option = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        if choice:
            close = nearest(choice[1], re.findall(r"[\w-]+", choice[2]))
        elif option:
            close = nearest(option[1], re.findall(r"--[\w-]+", self.format_help()))
        else:
            close = None
        return f"; did you mean {close}?" if close else ""


def actions(parser: ArgumentParser) -> AddAction:
    """Return what adds a sub-command: its name, its summary and what it calls."""
    inner = parser.add_subparsers(required=True, metavar="ACTION")

    def add(name: str, summary: str, call: object) -> ArgumentParser:
        action: ArgumentParser = inner.add_parser(name, help=summary, description=summary)
        action.set_defaults(call=call)
        return action

    return add


def add_run_id(parser: ArgumentParser) -> None:
    """Add the argument that names a run."""
    parser.add_argument("run", metavar="RUN", help="Id of the run, or its first characters")


def add_repeated(
    parser: ArgumentParser, option: str, metavar: str, text: str, *, required: bool = False
) -> None:
    """Add an option that may be given several times."""
    parser.add_argument(
        option,
        action="append",
        default=[],
        required=required,
        metavar=metavar,
        help=f"{text}; may be repeated",
    )


def add_wait(parser: ArgumentParser) -> None:
    """Add the option that waits for the run lock."""
    parser.add_argument(
        "--wait", action="store_true", help="Wait for another treadle to finish instead of failing"
    )


def _bounded(value: float, least: int) -> float:
    if not least <= value <= _MOST:  # which no number that is none passes either
        raise ArgumentTypeError(f"{value} is not between {least} and {_MOST}")
    return value


def _formatter(prog: str) -> HelpFormatter:
    """Know the width beforehand: argparse makes one for every argument and would load shutil."""
    return HelpFormatter(prog, width=_columns() - 2)


def _columns() -> int:
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal() and int(chosen):
        return int(chosen)
    with suppress(OSError, ValueError):
        return os.get_terminal_size().columns or 80
    return 80
