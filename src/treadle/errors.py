"""Say why treadle cannot go on, with an exit code and the commands that help.

TreadleError                 1   code names the cause; fix lists literal commands
├── UsageError               2   the command line makes no sense
├── ConfigError              1   a configuration file, variable or flag is wrong
├── ProjectError             1   no repository, no commit, no project here
├── NotFoundError            1   an id nobody knows, with the nearest one
├── FormatError              1   a file or an agent's answer breaks its format
├── GitError                 1   git said no
├── StoreError               1   the store cannot be read or written
├── BlockedError             3   a gate or a question stands in the way
│   └── SpentError           4   the runs of this day are at their limit
├── LockedError             75   another process holds the lock
├── FencedError              1   another process has taken this run over
└── InterruptedRun     130/143   a signal ended the work
"""

import contextlib
import re
import shlex
import sys
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path

from treadle import __version__


class ExitCode(IntEnum):
    """Every exit code of the command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    BLOCKED = 3
    BUDGET = 4
    BUG = 70
    LOCKED = 75
    INTERRUPTED = 130
    TERMINATED = 143


def stop_code(reason: str) -> ExitCode:
    """Return how a command ends that was told to stop, by the signal that the reason names."""
    return ExitCode.INTERRUPTED if "SIGINT" in reason else ExitCode.TERMINATED


class TreadleError(Exception):
    """The root: one sentence a user can act on."""

    code = "error"
    exit_code = ExitCode.FAILED

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        fix: Iterable[str] = (),
        details: dict[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.fix = tuple(fix)
        self.details = details or {}


def whom_to_ask(path: Path) -> str:
    """Name the owner of what can be seen of a path, who can give a missing right."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            try:
                name = place.owner()
            except KeyError:
                name = f"user {place.stat().st_uid}"
            return f"ask its owner, {name}, for the right"
    return "ask its owner for the right"


def argument(word: str) -> str:
    """Write a name so that a shell takes it whole, and no command takes it for an option."""
    quoted = shlex.quote(word)
    return f"-- {quoted}" if word.startswith("-") else quoted


def edit(path: str) -> str:
    """Return the command that opens a file of the project."""
    return f"${{EDITOR:-vi}} {shlex.quote(path)}"


# What these tools leave where they install; each makes its environment anew, extras and all.
_RECEIPTS = {"uv-receipt.toml": "uv tool", "pipx_metadata.json": "pipx"}


def install_extra(extra: str) -> str:
    """Return the command that adds an extra to this installation, wherever it came from."""
    told, url, had, command = "", "", "", "pip install"
    for place in sys.path:
        with contextlib.suppress(OSError):
            told = Path(place, f"treadle-{__version__}.dist-info", "direct_url.json").read_text()
            kind = "git+" if '"vcs_info"' in told else ""
            url = kind + told.partition('"url":')[2].partition('"')[2].partition('"')[0]
            break
    for name, tool in _RECEIPTS.items():
        with contextlib.suppress(OSError):
            had = Path(sys.prefix, name).read_text()
            command = f"{tool} install --force"
    named = " ".join(re.findall(r'treadle(?:\[|", extras = \[)([^\]]*)', had))
    extras = ",".join(sorted({extra, *re.findall(r"\w+", named)}))
    if not had and re.search(r'"editable": *true', told):  # a checkout that one works on stays so
        return f"pip install -e {shlex.quote(f'{url}[{extras}]')}"
    what = f"treadle[{extras}]" + (f" @ {url}" if url else "")
    return f"{command} {shlex.quote(what)}"


class UsageError(TreadleError):
    """The command line makes no sense."""

    code = "usage"
    exit_code = ExitCode.USAGE


class ConfigError(TreadleError):
    """A configuration file, variable or flag is wrong."""

    code = "config_invalid"


class ProjectError(TreadleError):
    """There is no usable project here."""

    code = "no_project"


class NotFoundError(TreadleError):
    """Nobody knows this id."""

    code = "not_found"


class FormatError(TreadleError):
    """A file or an agent's answer breaks its format."""

    code = "format_invalid"


class GitError(TreadleError):
    """Git said no."""

    code = "git_failed"


class StoreError(TreadleError):
    """The store cannot be read or written."""

    code = "store_failed"


class BlockedError(TreadleError):
    """A gate or a question stands in the way."""

    code = "blocked"
    exit_code = ExitCode.BLOCKED


class SpentError(BlockedError):
    """What all runs of a day may use together is used."""

    code = "night_limit"
    exit_code = ExitCode.BUDGET


class LockedError(TreadleError):
    """Another process holds the lock."""

    code = "locked"
    exit_code = ExitCode.LOCKED


class FencedError(TreadleError):
    """Another process has taken this run over."""

    code = "fenced"


class InterruptedRun(TreadleError):
    """A signal ended the work."""

    code = "interrupted"

    def __init__(self, message: str, *, exit_code: ExitCode, fix: Iterable[str] = ()) -> None:
        super().__init__(message, fix=fix)
        self.exit_code = exit_code
