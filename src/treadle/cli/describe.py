"""`treadle describe`: tell programs every command, its arguments and the exit codes."""

from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator

from treadle import __version__
from treadle.cli import completion, output
from treadle.errors import ExitCode

_SHARED = {"--json", "--help"}


def add_arguments(parser: ArgumentParser) -> None:
    """Nothing to say: the answer is always the whole."""


def run(args: Namespace) -> int:
    """Describe the whole command line from the parsers that read it."""
    found = dict(commands(completion.whole_parser()))
    told = {
        "version": __version__,
        "usage": "treadle COMMAND ARGUMENTS [--json]: one JSON document on stdout,"
        " errors as {error: {code, message, fix}}",
        "exit_codes": {str(code.value): code.name.lower() for code in ExitCode},
        "commands": found,
    }
    lines = [f"treadle {name} {words}".rstrip() for name, words in found.items()]
    return output.say(args.json, told, *lines)


def commands(parser: ArgumentParser, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every command with its arguments, as its own parser has them."""
    inner = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    if not inner:
        named_last = sorted(parser._actions, key=lambda action: bool(action.option_strings))
        yield name, " ".join(filter(None, map(_words, named_last)))
    for action in inner:
        for word, command in action.choices.items():
            yield from commands(command, f"{name} {word}".lstrip())


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
