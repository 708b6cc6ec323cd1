"""`treadle describe` and `treadle completion`: the whole command line, for programs and shells."""

from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator

import shtab

import treadle
from treadle.cli import main, output, parser
from treadle.errors import ExitCode

_SHARED = {"--json", "--help"}


def describe_commands(args: Namespace) -> int:
    found = dict(commands(whole_parser()))
    told = {
        "version": treadle.__version__,
        "usage": "treadle COMMAND ARGUMENTS [--json]: one JSON document on stdout,"
        " errors as {error: {code, message, fix}}",
        "exit_codes": {str(code.value): code.name.lower() for code in ExitCode},
        "commands": found,
    }
    lines = [f"treadle {name} {words}".rstrip() for name, words in found.items()]
    return output.say(args.json, told, *lines)


def print_completion(args: Namespace) -> int:
    script = shtab.complete(whole_parser(), args.shell)
    return output.tell(args.json, {"shell": args.shell, "script": script}, output.block, script)


def whole_parser() -> ArgumentParser:
    """Return one parser with every command in it."""
    whole = parser.Parser(prog="treadle", description=treadle.__doc__)
    whole.add_argument("--version", "-V", action="store_true", help="Print the version")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND")
    for name in main.top_level():
        summary = main.COMMANDS[name][1]
        parser.fill(commands.add_parser(name, help=summary, description=summary), name)
    return whole


def commands(command: ArgumentParser, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every command with its arguments, as its own parser has them."""
    inner = [action for action in command._actions if isinstance(action, _SubParsersAction)]
    if not inner:
        named_last = sorted(command._actions, key=lambda action: bool(action.option_strings))
        yield name, " ".join(filter(None, map(_words, named_last)))
    for action in inner:
        for word, inside in action.choices.items():
            yield from commands(inside, f"{name} {word}".lstrip())


def _words(action: Action) -> str:
    if _SHARED & set(action.option_strings):
        return ""
    value = _value(action)
    if not action.option_strings:
        many = {"*": f"[{value}...]", "+": f"{value}...", "?": f"[{value}]"}
        return many.get(str(action.nargs), value)
    option = f"{action.option_strings[-1]} {value}".rstrip() if value else action.option_strings[-1]
    return option if action.required else f"[{option}]"


def _value(action: Action) -> str:
    if action.nargs == 0:
        return ""
    if action.choices:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())
