"""Build a command's parser; what it dislikes becomes an error like any other."""

import argparse
import os
import re
from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter, _SubParsersAction
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from treadle.errors import UsageError
from treadle.ids import nearest

# What argparse says is English like the rest; looking for a translation costs as much as reading
# the command line.
argparse._ = str  # type: ignore[attr-defined]  # its own name for gettext


# More than anybody means, less than what a database or a clock cannot hold.
_MOST = 1_000_000_000


class Parser(ArgumentParser):
    """A parser that knows --json, raises UsageError and never guesses at shortened options."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": _formatter, **kwargs})
        self.register("action", "parsers", _Actions)
        self.register("type", int, lambda text: _bounded(int(text), -_MOST))
        self.register("type", float, lambda text: _bounded(float(text), 0))
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


class _Later:
    """An action's parser, built when somebody asks for more than to add an argument."""

    def __init__(self, make: Callable[[], ArgumentParser]) -> None:
        self._make = make
        self._arguments: list[tuple[Any, Any]] = []
        self._made: ArgumentParser | None = None

    def add_argument(self, *words: Any, **options: Any) -> None:
        """Remember an argument."""
        self._arguments.append((words, options))

    def made(self) -> ArgumentParser:
        """Return the parser."""
        if self._made is None:
            self._made = self._make()
        while self._arguments:
            words, options = self._arguments.pop(0)
            self._made.add_argument(*words, **options)
        return self._made

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made(), name)


class _Parsers(dict[str, Any]):
    """The parsers by action: of a command's ten, one is asked for."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name).made()

    def values(self) -> Any:
        """Return all parsers."""
        return {name: self[name] for name in self}.values()

    def items(self) -> Any:
        """Return all parsers by name."""
        return {name: self[name] for name in self}.items()


class _Actions(_SubParsersAction):  # type: ignore[type-arg]  # generic only to type checkers
    """The actions of a command."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.choices = self._name_parser_map = _Parsers()

    def add_parser(self, name: str, **kwargs: Any) -> Any:
        """Add an action, but not its parser yet."""
        shown = self._ChoicesPseudoAction(name, (), kwargs.pop("help", None))
        self._choices_actions.append(shown)
        options = {"prog": f"{self._prog_prefix} {name}", **kwargs}
        self._name_parser_map[name] = _Later(lambda: self._parser_class(**options))
        return self._name_parser_map.get(name)


def build(name: str, summary: str, add_arguments: Callable[[ArgumentParser], None]) -> Parser:
    """Return the parser of one command."""
    parser = Parser(prog=f"treadle {name}", description=summary)
    add_arguments(parser)
    return parser


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
