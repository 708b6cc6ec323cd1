"""Ask the user, on a terminal, about what somebody else's commit brought."""

import sys
from argparse import Namespace
from collections.abc import Sequence

from treadle.cli import output
from treadle.config.load import Loaded
from treadle.errors import BlockedError
from treadle.project import trust
from treadle.project.project import Project
from treadle.project.trust import Command


def require(
    args: Namespace, project: Project, loaded: Loaded, more: Sequence[Command] = ()
) -> None:
    """Stop unless this repository is trusted as it is now; `treadle trust` answers beforehand."""
    try:
        trust.require(project, loaded, more)
    except BlockedError as error:
        if error.code != "trust_changed" or args.json or not _can_ask():
            raise
        output.print_error(error, as_json=False)
        output.line("Trust it from now on? [y/N]", error=True, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise
        trust.grant(project)


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
