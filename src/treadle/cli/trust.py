"""Let the commands of this repository run."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from treadle.cli import output
from treadle.config.load import load
from treadle.project import trust
from treadle.project.project import Project, open_project
from treadle.project.root import here, refuse_inside_run
from treadle.project.trust import Change


def add_arguments(parser: ArgumentParser) -> None:
    """Say what trust understands."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--show", action="store_true", help="Only show what would be trusted")
    how.add_argument("--revoke", action="store_true", help="Trust this repository no longer")


def run(args: Namespace) -> int:
    """Record the repository outside of it and show what may run now."""
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    if args.revoke:
        trust.revoke(project)
        return _tell(args, project, "is no longer trusted")
    loaded = load(project.layout, os.environ)
    seen = trust.look(project, loaded)
    changes = trust.changes(project, seen)
    if not args.show:
        trust.grant(project)
    word = "is trusted" if trust.entry(project) else "is not trusted"
    if args.show and changes:
        word += "; it waits for your word on what others have committed"
    return _tell(args, project, word, trust.commands(loaded), changes)


def _tell(
    args: Namespace,
    project: Project,
    word: str,
    commands: Sequence[trust.Command] = (),
    changes: Sequence[Change] = (),
) -> int:
    root = project.layout.root
    told = {
        "root": str(root),
        "trusted": trust.entry(project) is not None,
        "commands": [command._asdict() for command in commands],
        "changes": [change._asdict() for change in changes],
    }
    return output.say(
        args.json,
        told,
        *(line for change in changes for line in change.diff.splitlines()),
        f"{root} {word}",
        *(f"  {command.key}: {command.command}" for command in commands),
    )
