"""Build a command's parser; what it dislikes becomes an error like any other."""

import os
import re
from argparse import ArgumentParser, HelpFormatter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from treadle.errors import UsageError
from treadle.ids import nearest


class Parser(ArgumentParser):
    """A parser that knows --json, raises UsageError and never guesses at shortened options."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": _formatter, **kwargs})
        self.add_argument("--json", action="store_true", help="Answer with one JSON document")

    def add_subparsers(self, **kwargs: Any) -> Any:
        """Name the program here, because argparse would load its help writer to find out."""
        return super().add_subparsers(**{"prog": self.prog, **kwargs})

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


def build(name: str, summary: str, add_arguments: Callable[[ArgumentParser], None]) -> Parser:
    """Return the parser of one command."""
    parser = Parser(prog=f"treadle {name}", description=summary)
    add_arguments(parser)
    return parser


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
