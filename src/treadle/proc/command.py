"""Say what to run, within which limits, and how it ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

Reason = Literal[
    "exit",
    "signal",
    "timeout",
    "idle_timeout",
    "output_limit",
    "stopped",
    "missing",
    "not_executable",
    "lost",
]


class Limits(NamedTuple):
    """When a command is ended; None means never."""

    wall: float | None = None
    idle: float | None = None
    output_bytes: int | None = None
    grace: float = 5.0


class Command(NamedTuple):
    """One program with everything it gets."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: Path | None
    stdout: Path
    stderr: Path
    limits: Limits = Limits()


class Ended(NamedTuple):
    """How a command ended; by now nothing it started is alive."""

    reason: Reason
    exit_code: int | None
    signal: int | None
    seconds: float
    stragglers: int
    detail: str
    output_bytes: int
    cpu_seconds: float = 0.0
    max_rss_kb: int = 0


class Cause(NamedTuple):
    """Why a command could not start or may not go on."""

    reason: Reason
    detail: str
