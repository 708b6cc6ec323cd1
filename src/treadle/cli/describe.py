"""What treadle says of itself: every command, a completion script, the report of a bug."""

import os
import platform
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import get_args

import shtab

import treadle
from treadle import __version__, layout
from treadle.cli import invoke, main, output
from treadle.cli.complete import BUDGETS
from treadle.contract import ROLES
from treadle.errors import ExitCode, TreadleError
from treadle.mail.letter import INTENTS, STATUSES
from treadle.project import setup
from treadle.sandbox.mask import Mask
from treadle.store.questions import Verb
from treadle.tasks.lanes import LANES

_USAGE = (
    "treadle COMMAND ARGUMENTS [--json]: one JSON document on stdout,"
    " errors as {error: {code, message, fix}}"
)
_NAMES = (
    "Choose a name for yourself, such as ada, and give it every time: to next with --agent, to task"
    " and mail with --as or --from, or to all of them in TREADLE_AGENT. Under it the task you are"
    " given and your letters stay yours. Without one you are taken for human, and get no task that"
    " somebody holds."
)


def describe_commands(args: Namespace) -> int:
    found = commands()
    told = {
        "version": treadle.__version__,
        "usage": _USAGE,
        "agent_names": _NAMES,
        "exit_codes": {str(code.value): code.name.lower() for code in ExitCode},
        "commands": {name: _described(name, usage) for name, usage in found.items()},
    }
    lines = [f"treadle {name} {words}".rstrip() for name, words in found.items()]
    return output.say(args.json, told, *lines)


def print_instructions(args: Namespace) -> int:
    text = setup.instructions(args.topic or "overview")
    told = {"topic": args.topic or "overview", "markdown": text}
    return output.tell(args.json, told, output.block, text)


def _described(name: str, usage: str) -> dict[str, object]:
    """Return what a command is for and how it is written, with the values that can be chosen."""
    found: dict[str, object] = {"summary": f"{main.COMMANDS[name][1]}.", "usage": usage}
    values = {word: known for line in _lines(name) for word, known in _choices(line)}
    return found | ({"values": values} if values else {})


# What can stand for a word of the table of commands, where that is always the same.
_VALUES = {
    "LANE": LANES,
    "INTENT": INTENTS,
    "STATUS": STATUSES,
    "ACTION": get_args(Verb),
    "ROLE=NAME": tuple(f"{role}=NAME" for role in ROLES),
    "KEY=N": tuple(f"{key}=N" for key in BUDGETS),
}


def _choices(line: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield an argument with the values it takes, if the table or we know them all."""
    words = _head(line).split()
    kept = [words.pop()[1:]] if words[-1].startswith(">") else []
    value = words[-1].strip("[]!").removesuffix("...")
    known = value.split("|") if value[0].islower() else _VALUES.get(value, ())
    if known:
        yield words[-2] if len(words) > 1 else [*kept, value][0], known


# What an argument stands for, by how the table of commands spells it.
_KINDS = {
    "RUN": "run",
    "TASK": "task",
    "SPEC": "spec",
    "ROLE=NAME": "player",
    "KEY=N": "budget",
    "LANE": "lane",
    "ITEM": "item",
    "ACTION": "action",
    "SLUG": "mission",
}
# What a NAME is to the commands that take one.
_NAMED = {
    **dict.fromkeys(("agent", "next"), "agent"),
    **dict.fromkeys(("routine", "send"), "routine"),
    "spec": "spec",
    "verify": "run",
}
# A function for each kind, where a shell wants one.
_FUNCTIONS = {
    "bash": '_treadle_{0}() {{ compgen -W "$(treadle complete {0} "$1" 2>/dev/null)" -- "$1"; }}',
    "zsh": '_treadle_{0}() {{ compadd "$@" -- ${{(f)"$(treadle complete {0} 2>/dev/null)"}}; }}',
}


def print_completion(args: Namespace) -> int:
    parser = whole_parser()
    _name_values(parser, "")
    kinds = sorted({*_KINDS.values(), *_NAMED.values()})
    functions = "\n".join(_FUNCTIONS.get(args.shell, "").format(kind) for kind in kinds)
    script = shtab.complete(parser, args.shell, preamble=functions)
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


def _name_values(parser: ArgumentParser, command: str) -> None:
    """Tell every argument where the shell gets its values from."""
    for action in parser._actions:
        inner = action.choices if isinstance(action.choices, dict) else {}
        for word, other in inner.items():
            _name_values(other, command or word)
        value = action.metavar if isinstance(action.metavar, str) and not inner else ""
        if kind := _NAMED.get(command) if value == "NAME" else _KINDS.get(value):
            action.complete = {  # type: ignore[attr-defined]  # where shtab looks
                **dict.fromkeys(("bash", "zsh"), f"_treadle_{kind}"),
                "fish": f"(treadle complete {kind} (commandline -ct))",
                "tcsh": f"`treadle complete {kind}`",
            }


def commands() -> dict[str, str]:
    """Return every command with its arguments."""
    return {name: _arguments(name) for name, entry in main.COMMANDS.items() if entry[0]}


def _arguments(name: str) -> str:
    """Return the arguments of a command in a few words, those without a dash first."""
    spelled = map(_head, _lines(name))
    return " ".join(map(_spelled, sorted(spelled, key=lambda words: words.startswith("-"))))


def _lines(name: str) -> list[str]:
    """Return a command's arguments as the table has them, shared ones too."""
    return [line for it in main.COMMANDS[name][2] for line in main.SHARED.get(it, [it])]


def _head(line: str) -> str:
    return line.removeprefix("| ").partition("  ")[0].partition(" =>")[0]


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
