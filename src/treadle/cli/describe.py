"""What treadle says of itself: every command, a completion script, the report of a bug."""

import os
import platform
import traceback
from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import shtab

import treadle
from treadle import __version__, layout
from treadle.cli import invoke, main, output
from treadle.errors import ExitCode, TreadleError
from treadle.sandbox.mask import Mask

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
    whole = invoke.Parser(prog="treadle", description=treadle.__doc__)
    whole.add_argument("--version", "-V", action="store_true", help="Print the version")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND")
    for name in main.top_level():
        summary = main.COMMANDS[name][1]
        invoke.fill_parser(commands.add_parser(name, help=summary, description=summary), name)
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


def report_bug(error: Exception, words: list[str], env: Mapping[str, str]) -> TreadleError:
    """Write the report and return the error that says where it is."""
    text = _bug_text(error, words, env)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S") + f"-{os.getpid()}"
    path = layout.bug_log(env, stamp)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, errors="backslashreplace")
    except OSError:
        output.block(text, error=True)
        return TreadleError("this is a bug in treadle; the report stands above", code="bug")
    return TreadleError(
        f"this is a bug in treadle ({type(error).__name__}); the report is in {path}",
        code="bug",
        details={"report": str(path)},
    )


def _bug_text(error: Exception, words: list[str], env: Mapping[str, str]) -> str:
    whole = "\n".join(
        [
            f"treadle {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"command: {words!r}",
            "",
            "".join(traceback.format_exception(error)),
        ]
    )
    return Mask(env).text(whole)
