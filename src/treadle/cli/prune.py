"""`treadle runs prune`: remove workspaces, and with --history whole runs."""

import os
from argparse import Namespace

from treadle.cli import output
from treadle.cli.progress import watcher
from treadle.engine import orchestrator
from treadle.engine.prune import Pruned, prune
from treadle.errors import ExitCode
from treadle.project.project import open_project
from treadle.project.root import here, refuse_inside_run

_CENTURY = 36_500.0


def run(args: Namespace) -> int:
    """Hold the project, prune, say what went."""
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    with orchestrator.opened(project, watch=watcher(args.json)) as tools:
        days = min(args.older_than, _CENTURY)
        found = prune(tools, older_than=days, history=args.history, dry_run=args.dry_run)
    if args.json:
        output.print_json({**found._asdict(), "dry_run": args.dry_run})
    else:
        _print(found, args.dry_run)
    return ExitCode.DONE


def _print(found: Pruned, dry_run: bool) -> None:
    verb = "would remove" if dry_run else "removed"
    for run_id in found.workspaces:
        print(f"{verb} the workspace of {run_id}")
    for run_id in found.runs:
        print(f"{verb} run {run_id} with its branch")
    for name in found.archives:
        print(f"{verb} {name}, which no step needs")
    if not any(found):
        print("nothing to remove")
