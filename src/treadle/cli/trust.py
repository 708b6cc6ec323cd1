"""Let the commands of this repository run."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import output
from treadle.config.load import load
from treadle.project import trust
from treadle.project.project import open_project
from treadle.project.root import here, refuse_inside_run


def add_arguments(parser: ArgumentParser) -> None:
    """Say what trust understands."""
    parser.add_argument("--revoke", action="store_true", help="Trust this repository no longer")


def run(args: Namespace) -> int:
    """Record the repository outside of it and show what may run now."""
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    if args.revoke:
        trust.revoke(project)
        commands: tuple[trust.Command, ...] = ()
    else:
        trust.refuse_tracked(project)
        commands = trust.commands(load(project.layout, os.environ))
        trust.grant(project)
    root = project.layout.root
    listed = [command._asdict() for command in commands]
    return output.say(
        args.json,
        {"root": str(root), "trusted": not args.revoke, "commands": listed},
        f"{root} is {'no longer trusted' if args.revoke else 'trusted'}",
        *(f"  {command.key}: {command.command}" for command in commands),
    )
