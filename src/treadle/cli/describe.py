"""What treadle says of itself: every command, a completion script, the report of a bug."""

import os
import platform
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from datetime import UTC, datetime

import shtab

import treadle
from treadle import __version__, layout
from treadle.cli import invoke, main, output
from treadle.errors import ExitCode, TreadleError
from treadle.sandbox.mask import Mask


def describe_commands(args: Namespace) -> int:
    found = commands()
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


def commands() -> dict[str, str]:
    """Return every command with its arguments."""
    return {name: _arguments(name) for name, entry in main.COMMANDS.items() if entry[0]}


def _arguments(name: str) -> str:
    """Return the arguments of a command in a few words, those without a dash first."""
    lines = [line for it in main.COMMANDS[name][2] for line in main.SHARED.get(it, [it])]
    spelled = [line.removeprefix("| ").partition("  ")[0].partition(" =>")[0] for line in lines]
    return " ".join(map(_spelled, sorted(spelled, key=lambda words: words.startswith("-"))))


def _spelled(line: str) -> str:
    words = [word for word in line.split() if not word.startswith(">")]
    if not line.startswith("-"):
        return words[0]
    value = "" if words[-1].startswith("-") else words.pop()
    shown = value.removesuffix("!").partition(":")[0].removesuffix("...")
    option = f"{words[-1]} {shown}".rstrip()
    return option if value.endswith("!") else f"[{option}]"


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
