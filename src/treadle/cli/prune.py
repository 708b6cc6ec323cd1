"""`treadle runs prune`: remove workspaces, and with --history whole runs."""

import os
from argparse import Namespace

from treadle.cli import output
from treadle.cli.progress import watcher
from treadle.engine import orchestrator
from treadle.engine.prune import prune
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
    verb = "would remove" if args.dry_run else "removed"
    lines = [
        *(f"{verb} the workspace of {run_id}" for run_id in found.workspaces),
        *(f"{verb} run {run_id} with its branch" for run_id in found.runs),
        *(f"{verb} {name}, which no step needs" for name in found.archives),
    ]
    told = {**found._asdict(), "dry_run": args.dry_run}
    return output.say(args.json, told, *lines or ["nothing to remove"])
