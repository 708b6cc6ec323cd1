"""Say what a crash experiment needs to know about the program under test."""

import importlib
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from tests.crash.supervise import Command


class Outcome(NamedTuple):
    """What the world outside has seen: an exit code (None: killed) and what was printed."""

    code: int | None
    printed: str


class Scenario(Protocol):
    """One program, one job, and the rules that must hold after any crash of it."""

    def prepare(self, world: Path) -> None:
        """Fill the empty world: repository, home, configuration."""

    def command(self, world: Path) -> Command:
        """Return the job that is going to be disturbed."""

    def recovery(self, world: Path) -> list[Command]:
        """Return what a user would run afterwards; each must exit with 0."""

    def verify(self, world: Path, seen: Outcome) -> list[str]:
        """Return one sentence for each promise that the recovered world breaks."""


def load(name: str) -> Scenario:
    """Find a scenario by `module:Name`."""
    module, _, attribute = name.partition(":")
    return cast(Scenario, getattr(importlib.import_module(module), attribute)())
