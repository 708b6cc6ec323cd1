"""Run one command and turn every way it can end into words and an exit code."""

import contextlib
import errno
import io
import os
import sys
from argparse import Namespace
from pathlib import Path

from treadle import __version__
from treadle.cli import main, output
from treadle.cli.parser import Parser, build
from treadle.errors import ConfigError, ExitCode, TreadleError, UsageError
from treadle.ids import nearest

# What the machine refuses is the user's to mend; any other OSError is a mistake of ours.
_REFUSALS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE}
)
_FLEET_PACKAGES = ("dbos", "obstore", "psycopg")


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
        return _fail(error, error.exit_code, as_json)
    except KeyboardInterrupt:
        stopped = TreadleError("interrupted", code="interrupted")
        return _fail(stopped, ExitCode.INTERRUPTED, as_json)
    except BrokenPipeError:
        return _drop_output()
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
    if words[:1] in (["help"], ["--help"], ["-h"]) or not words:
        words = [*words[1:2], "--help"] if words[1:] else []
    if not words:
        commands = [{"name": it, "summary": main.COMMANDS[it][1]} for it in main.top_level()]
        output.print_json({"commands": commands})
        return ExitCode.DONE
    if words in (["--version"], ["-V"]):
        output.print_json({"version": __version__})
        return ExitCode.DONE
    return _run(words[0], words[1:], as_json)


def _run(name: str, words: list[str], as_json: bool) -> int:
    if name not in main.top_level():
        raise _unknown(name)
    args = _parse(build(name), words, as_json)
    if args is None:
        return ExitCode.DONE
    args.json = as_json
    code: int = main.call(args.call, args)
    return code


def _parse(command: Parser, words: list[str], as_json: bool) -> Namespace | None:
    """Return the arguments, or None when the words asked for help and got it."""
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
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
        _drop_output()
    return int(code)


def _drop_output() -> int:
    """Nobody reads any more: let the interpreter's own last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return ExitCode.FAILED


def _unexpected(error: Exception, words: list[str], as_json: bool) -> int:
    if isinstance(error, OSError) and error.errno in _REFUSALS:
        where = f"{error.filename}: " if error.filename else ""
        fix = ["df -h"] if error.errno in (errno.ENOSPC, errno.EDQUOT) else []
        refusal = TreadleError(f"{where}{error.strerror}", code="refused_by_system", fix=fix)
        return _fail(refusal, ExitCode.FAILED, as_json)
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        gone = TreadleError("the current folder no longer exists", code="no_project", fix=["cd"])
        return _fail(gone, ExitCode.FAILED, as_json)
    if isinstance(error, ModuleNotFoundError) and error.name in _FLEET_PACKAGES:
        missing = ConfigError(
            f"the fleet needs the extra `fleet`, which is not installed ({error.name})",
            code="extra_missing",
            fix=["pip install 'treadle[fleet]'"],
        )
        return _fail(missing, missing.exit_code, as_json)
    bug: TreadleError = main.call("bug.report", error, words, os.environ)
    return _fail(bug, ExitCode.BUG, as_json)


def _is_nowhere() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False
