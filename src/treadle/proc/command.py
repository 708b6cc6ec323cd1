"""Say what to run, within which limits, and how it ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

# How a command ended: by itself, at a limit, because it was to stop, or before it began.
Reason = (
    Literal["exit", "signal", "stopped", "missing", "not_executable", "lost"]
    | Literal["timeout", "idle_timeout", "output_limit", "disk_limit"]
    | Literal["memory_limit", "process_limit"]
)


class Limits(NamedTuple):
    """When a command is ended; None means never."""

    wall: float | None = None
    idle: float | None = None
    output_bytes: int | None = None
    grace: float = 5.0
    disk_bytes: int | None = None
    disk: tuple[Path, ...] = ()  # the folders that `disk_bytes` counts
    memory_bytes: int | None = None  # of all its processes together
    processes: int | None = None  # threads included
    growth_bytes: int | None = None
    growing: tuple[Path, ...] = ()  # the folders that may hold much, and grow by `growth_bytes`


class Jail(NamedTuple):
    """What holds a command in: a program around it, or rules that the kernel takes.

    With `access`, the shim takes Landlock's rules and the filter before it starts the command;
    otherwise the wrapper finds the filter on descriptor 3, and is started within `scope`. `lasting`
    are rules about the rights in `seen`, written as one text: they stay the same, so a shim makes
    them once.
    """

    wrapper: tuple[str, ...] = ()
    filter: bytes = b""
    access: int = 0
    scope: int = 0
    rules: tuple[tuple[int, str], ...] = ()
    seen: int = 0
    lasting: str = ""


class Command(NamedTuple):
    """One program with everything it gets."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: Path | None
    stdout: Path
    stderr: Path
    limits: Limits = Limits()
    jail: Jail | None = None


class Ended(NamedTuple):
    """How a command ended; if `vouched`, by now nothing it started is alive."""

    reason: Reason
    exit_code: int | None
    signal: int | None
    seconds: float
    stragglers: int
    detail: str
    output_bytes: int
    vouched: bool = True


class Cause(NamedTuple):
    """Why a command could not start or may not go on."""

    reason: Reason
    detail: str
