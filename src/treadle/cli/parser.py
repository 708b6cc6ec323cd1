"""Build a command's parser; what it dislikes becomes an error like any other."""

import re
from argparse import ArgumentError, ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from treadle.errors import UsageError
from treadle.ids import nearest


class Parser(ArgumentParser):
    """A parser that raises UsageError and never guesses at shortened options."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})  # type: ignore[arg-type]  # passed through

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
    fill(parser, add_arguments)
    return parser


def fill(parser: ArgumentParser, add_arguments: Callable[[ArgumentParser], None]) -> None:
    """Give a parser its command's own arguments and the one that all commands share."""
    add_arguments(parser)
    with suppress(ArgumentError):  # the command has its own words for it
        parser.add_argument("--json", action="store_true", help="Answer with one JSON document")
