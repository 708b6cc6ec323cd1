"""Run one command and turn every way it can end into words and an exit code."""

import contextlib
import errno
import io
import json
import os
import re
import shlex
import sys
from argparse import (
    SUPPRESS,
    ArgumentParser,
    ArgumentTypeError,
    HelpFormatter,
    Namespace,
    _MutuallyExclusiveGroup,
)
from pathlib import Path
from typing import Any, NoReturn

from treadle import __version__
from treadle.cli import main, output
from treadle.errors import (
    ConfigError,
    ExitCode,
    TreadleError,
    UsageError,
    install_extra,
    whom_to_ask,
)
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


def _formatter(prog: str) -> HelpFormatter:
    """Fit help to the terminal; left to itself, argparse loads shutil to measure it each time."""
    try:
        columns = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(1).columns
    except (ValueError, OSError):
        columns = 0
    return HelpFormatter(prog, width=columns - 2 if columns > 0 else 78)


def build_parser(name: str) -> Parser:
    """Return the parser of one command."""
    parser = Parser(prog=f"treadle {name}", description=main.COMMANDS[name][1])
    fill_parser(parser, name)
    return parser


def fill_parser(parser: ArgumentParser, name: str) -> None:
    """Give a parser the sub-commands or the arguments that the table has for a command."""
    function, _, arguments = main.COMMANDS[name]
    inner = [other for other in main.COMMANDS if other.rpartition(" ")[0] == name]
    if inner:
        actions = parser.add_subparsers(required=not function, metavar="ACTION")
    for other in inner:
        summary = main.COMMANDS[other][1]
        word = other.rpartition(" ")[2]
        fill_parser(actions.add_parser(word, help=summary, description=summary), other)
    if function:
        parser.set_defaults(call=function)
    for line in arguments:
        for shared in main.SHARED.get(line, [line]):
            _add_argument(parser, shared)


def _add_argument(parser: ArgumentParser, line: str) -> None:
    """Add an argument as the table describes it.

    `--limit N:int=50` has a type and a default, `--to URL!` is needed, `--ac TEXT...` may be
    repeated, `--output [STEP]` needs no value, `--as AGENT >who` is kept under another name,
    `--fleet => module.function` calls something else, `--role plan|do` takes one of these words;
    `NAME`, `[NAME]`, `NAME...` and `[NAME...]` have no dash. Lines that begin with `|` exclude
    each other.
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
    options: dict[str, Any] = _values(value.strip("[]").removesuffix("..."))
    if value.startswith("["):
        options |= {"nargs": "?", "const": "last" if value == "[STEP]" else ""}
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


# What the machine refuses is the user's to mend; any other OSError is a mistake of ours.
_REFUSALS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE}
)
# Which extra brings a package.
_EXTRAS = {
    **dict.fromkeys(("obstore", "psycopg"), "fleet"),
    **dict.fromkeys(("mcp", "mcp_types"), "mcp"),
    "opentelemetry": "otel",
}


def invoke(words: list[str]) -> int:
    """Run the command that `words` name and return its exit code."""
    words, as_json = _take_json(words)
    try:
        _show_any_text()
        _require_text(words)
        code = _dispatch(words, as_json)
        sys.stdout.flush()
        return code
    except TreadleError as error:
        if isinstance(error, UsageError) and not error.fix:
            error.fix = (f"treadle {' '.join(words[:1])} --help",)
        if error.code == "locked" and "@wait" in main.COMMANDS[words[0]][2]:
            error.fix = (*error.fix, shlex.join(["treadle", words[0], "--wait", *words[1:]]))
        return _fail(error, error.exit_code, as_json)
    except KeyboardInterrupt:
        stopped = TreadleError("interrupted", code="interrupted")
        return _fail(stopped, ExitCode.INTERRUPTED, as_json)
    except BrokenPipeError:
        return main.drop_output()
    except Exception as error:  # noqa: BLE001  # the boundary: a user never sees a traceback
        return _unexpected(error, words, as_json)


def _take_json(words: list[str]) -> tuple[list[str], bool]:
    """Accept --json anywhere before `--`, so that every path knows how to answer."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[:end] if word != "--json"]
    return rest + words[end:], len(rest) < end


def _show_any_text() -> None:
    """Names on disk need not fit the terminal's encoding: escape them rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _require_text(words: list[str]) -> None:
    for word in words:
        if any("\ud800" <= sign <= "\udfff" for sign in word):
            raise UsageError(f"{word!r} is not valid {sys.getfilesystemencoding()} text")


def _dispatch(words: list[str], as_json: bool) -> int:
    if not words and main.call("status.show_here", as_json):
        return ExitCode.DONE
    if words[:1] in (["help"], ["--help"], ["-h"]):
        words = [*words[1:2], "--help"] if words[1:] else []
    if not words and not as_json:
        output.block(main.overview())
        return ExitCode.DONE
    if not words:
        commands = [{"name": it, "summary": main.COMMANDS[it][1]} for it in main.top_level()]
        output.print_json({"commands": commands})
        return ExitCode.DONE
    if words in (["--version"], ["-V"]):
        output.print_json({"version": __version__})
        return ExitCode.DONE
    if words[0] not in main.top_level():
        raise _unknown(words[0])
    name, given = _named(words)
    args = _parse(build_parser(name), given, as_json)
    if args is None:
        return ExitCode.DONE
    args.json = as_json
    command = main.find(args.call)
    main.collect_garbage()
    code: int = command(args)
    return code


def _named(words: list[str]) -> tuple[str, list[str]]:
    """Return the command that words name, and what it is given: its parser is all that is built."""
    name, given = words[0], words[1:]
    while given and f"{name} {given[0]}" in main.COMMANDS:
        name, given = f"{name} {given[0]}", given[1:]
    return name, given


def carry_out(line: str, as_json: bool, wait: bool) -> tuple[int, object]:
    """Run a command as a part of another one; return its exit code and its document."""
    words = shlex.split(line)[1:]
    if wait and "@wait" in main.COMMANDS[words[0]][2]:
        words.insert(1, "--wait")
    if not as_json:
        return _dispatch(words, as_json), None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = _dispatch(words, as_json)
    return code, json.loads(said.getvalue())


def _parse(command: Parser, words: list[str], as_json: bool) -> Namespace | None:
    """Return the arguments, or None when the words asked for help and got it."""
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            if command.prog == "treadle enter":  # its command stands behind options too
                return command.parse_intermixed_args(words)
            return command.parse_args(words)
    except SystemExit:
        if as_json:
            output.print_json({"help": shown.getvalue()})
        else:
            output.block(shown.getvalue())
        return None


def _unknown(name: str) -> UsageError:
    what = "an option" if name.startswith("-") else "a command"
    close = nearest(name, main.top_level())
    hint = f"; did you mean {close}?" if close else ""
    fix = [f"treadle {close} --help"] if close else ["treadle --help"]
    return UsageError(f"{name!r} is not {what}{hint}", fix=fix)


def _fail(error: TreadleError, code: int, as_json: bool) -> int:
    try:
        output.print_error(error, as_json=as_json)
        sys.stdout.flush()
    except OSError:
        main.drop_output()
    return int(code)


def _unexpected(error: Exception, words: list[str], as_json: bool) -> int:
    if isinstance(error, OSError) and error.errno in _REFUSALS:
        where = f"{error.filename}: " if error.filename else ""
        fix = ["df -h"] if error.errno in (errno.ENOSPC, errno.EDQUOT) else []
        is_denied = isinstance(error, PermissionError) and error.filename
        ask = f"; {whom_to_ask(Path(str(error.filename)))}" if is_denied else ""
        text = f"{where}{error.strerror}{ask}"
        refusal = TreadleError(text, code="refused_by_system", fix=fix)
        return _fail(refusal, ExitCode.FAILED, as_json)
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        gone = TreadleError("the current folder no longer exists", code="no_project", fix=["cd"])
        return _fail(gone, ExitCode.FAILED, as_json)
    package = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if extra := _EXTRAS.get(package):
        missing = ConfigError(
            f"this needs the extra `{extra}`, which is not installed ({package})",
            code="extra_missing",
            fix=[install_extra(extra)],
        )
        return _fail(missing, missing.exit_code, as_json)
    bug: TreadleError = main.call("describe.report_bug", error, words, os.environ)
    return _fail(bug, ExitCode.BUG, as_json)


def _is_nowhere() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False
