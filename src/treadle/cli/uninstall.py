"""Remove what init wrote."""

import os
from argparse import ArgumentParser, Namespace
from contextlib import nullcontext

from treadle.cli import output
from treadle.engine import lock
from treadle.layout import Layout
from treadle.project import uninstall
from treadle.project.root import find_top, here, refuse_inside_run
from treadle.project.setup import refuse_links


def add_arguments(parser: ArgumentParser) -> None:
    """Say what uninstall understands."""
    parser.add_argument("--dry-run", action="store_true", help="Only show what would go and stay")
    parser.add_argument(
        "--purge", action="store_true", help="Remove the records of all runs and tasks as well"
    )


def run(args: Namespace) -> int:
    """Remove unchanged files while no run works, and name what stays."""
    refuse_inside_run(os.environ)
    layout = Layout(find_top(here(), os.environ))
    refuse_links(layout)
    with nullcontext() if args.dry_run or not layout.home.is_dir() else lock.hold(layout):
        done = uninstall.uninstall(here(), os.environ, purge=args.purge, dry_run=args.dry_run)
    kept = [item._asdict() for item in done.kept]
    told = {"root": str(done.root), "dry_run": args.dry_run, "removed": done.removed, "kept": kept}
    lines = [
        *(f"{'would remove' if args.dry_run else 'removed'} {name}" for name in done.removed),
        *(f"kept {item.path} ({item.reason})" for item in done.kept),
    ]
    return output.say(args.json, told, *lines or ["nothing to remove"])
