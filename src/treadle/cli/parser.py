"""Read command lines; what is wrong with one becomes an error like any other."""

import os
import re
from argparse import (
    SUPPRESS,
    ArgumentParser,
    ArgumentTypeError,
    HelpFormatter,
    _MutuallyExclusiveGroup,
)
from contextlib import suppress
from typing import Any, NoReturn

from treadle.cli import main
from treadle.errors import UsageError
from treadle.ids import nearest

# More than anybody means, less than what a database or a clock cannot hold.
_MOST = 1_000_000_000


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


def build(name: str) -> Parser:
    """Return the parser of one command."""
    parser = Parser(prog=f"treadle {name}", description=main.COMMANDS[name][1])
    fill(parser, name)
    return parser


def fill(parser: ArgumentParser, name: str) -> None:
    """Give a parser the sub-commands or the arguments that the table has for a command."""
    function, _, arguments = main.COMMANDS[name]
    inner = [other for other in main.COMMANDS if other.rpartition(" ")[0] == name]
    if inner:
        actions = parser.add_subparsers(required=True, metavar="ACTION")
    for other in inner:
        summary = main.COMMANDS[other][1]
        word = other.rpartition(" ")[2]
        fill(actions.add_parser(word, help=summary, description=summary), other)
    if function:
        parser.set_defaults(call=function)
    for line in arguments:
        for shared in main.SHARED.get(line, [line]):
            _add_argument(parser, shared)


def _add_argument(parser: ArgumentParser, line: str) -> None:
    """Add an argument as the table describes it.

    `--limit N:int=50` has a type and a default, `--to URL!` is needed, `--ac TEXT...` may be
    repeated, `--as AGENT >who` is kept under another name, `--fleet => module.function` calls
    something else, `--role plan|do` takes one of these words; `NAME`, `[NAME]`, `NAME...` and
    `[NAME...]` have no dash. Lines that begin with `|` exclude each other.
    """
    left, _, text = line.partition("  ")
    words = left.removeprefix("| ").split()
    names = [word for word in words if word.startswith("-")]
    group = _exclusive(parser) if line.startswith("| ") else parser
    if "=>" in words:
        group.add_argument(
            *names, action="store_const", dest="call", const=words[-1], default=SUPPRESS, help=text
        )
    elif words == names:
        group.add_argument(*names, action="store_true", help=text)
    else:
        kept = [word.removeprefix(">") for word in words if word.startswith(">")]
        value = words[len(names)]
        options = _option(value) if names else _positional(value, kept)
        if names and kept:
            options["dest"] = kept[0]
        shown = f"{text}{options.pop('more', '')}"
        group.add_argument(*names, help=shown, **options)


def _exclusive(parser: ArgumentParser) -> _MutuallyExclusiveGroup:
    groups = parser._mutually_exclusive_groups
    return groups[0] if groups else parser.add_mutually_exclusive_group()


def _option(spelled: str) -> dict[str, Any]:
    value, _, rest = spelled.removesuffix("!").partition(":")
    kind, _, default = rest.partition("=")
    options: dict[str, Any] = _values(value.removesuffix("..."))
    options["required"] = spelled.endswith("!")
    if value.endswith("..."):
        options |= {"action": "append", "default": [], "more": "; may be repeated"}
    if kind:
        options["type"] = {"int": int, "float": float}[kind]
    if default:
        options |= {"default": default, "more": f" (default: {default})"}
    return options


def _positional(spelled: str, kept: list[str]) -> dict[str, Any]:
    value = spelled.strip("[]").removesuffix("...")
    is_optional, is_many = spelled.startswith("["), "..." in spelled
    options = _values(value) | {"dest": kept[0] if kept else value.lower()}
    if is_optional or is_many:
        options["nargs"] = "?" if not is_many else "*" if is_optional else "+"
    return options


def _values(value: str) -> dict[str, Any]:
    """Words in small letters are the ones to choose from, others say what is meant."""
    return {"choices": value.split("|")} if value[0].islower() else {"metavar": value}


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
