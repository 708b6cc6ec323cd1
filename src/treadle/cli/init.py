"""Set treadle up in this repository."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import output
from treadle.project import setup
from treadle.project.root import here
from treadle.project.setup import Extras


def add_arguments(parser: ArgumentParser) -> None:
    """Say what init understands."""
    parser.add_argument(
        "--dry-run", action="store_true", help="Only show which files would be written"
    )
    parser.add_argument(
        "--commit", action="store_true", help="Commit the written files, and nothing else"
    )
    parser.add_argument(
        "--agents-md", action="store_true", help="Tell agents about treadle in AGENTS.md"
    )
    parser.add_argument(
        "--skills", action="store_true", help="Write Agent Skills to .agents/skills"
    )
    parser.add_argument(
        "--trust", action="store_true", help="Trust what others have committed here, too"
    )


def run(args: Namespace) -> int:
    """Write what is missing and name every file."""
    extras = Extras(agents_md=args.agents_md, skills=args.skills)
    done = setup.init(
        here(),
        os.environ,
        dry_run=args.dry_run,
        commit=args.commit,
        accept=args.trust,
        extras=extras,
    )
    told = {
        "root": str(done.root),
        "dry_run": args.dry_run,
        "wrote": done.wrote,
        "kept": done.kept,
        "commit": done.commit,
        "commands": [command._asdict() for command in done.commands],
        "roles": dict(done.roles),
        "trusted": done.trusted,
        "foreign": done.foreign,
    }
    return output.tell(args.json, told, _print, done, args.dry_run)


def _print(done: setup.Initialised, dry_run: bool) -> None:
    for name in done.wrote:
        output.line(f"{'would write' if dry_run else 'wrote'} {name}")
    for name in done.kept:
        output.line(f"kept {name}")
    for role, tool in done.roles.items():
        output.line(f"{role} is done by {tool}")
    if done.commit:
        output.line(f"committed as {done.commit[:12]}")
    if dry_run:
        return
    word = "trusted" if done.trusted else "not trusted"
    for command in done.commands:
        output.line(f"{word} {command.key}: {command.command}")
    if not done.trusted:
        output.line(f"others committed {', '.join(done.foreign)}; nothing of it runs yet")
        output.line("next: treadle trust --show, then treadle trust")
        return
    output.line(
        'next: treadle task add "what should be true" --verify "AC1=command", then treadle run'
    )
