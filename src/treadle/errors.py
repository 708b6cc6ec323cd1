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
├── LockedError             75   another process holds the lock
├── FencedError              1   another process has taken this run over
└── InterruptedRun     130/143   a signal ended the work
"""

import shlex
from collections.abc import Iterable
from enum import IntEnum


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


def argument(word: str) -> str:
    """Write a name so that a shell takes it whole, and no command takes it for an option."""
    quoted = shlex.quote(word)
    return f"-- {quoted}" if word.startswith("-") else quoted


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
