"""`treadle undo`: take a landed run out of its branch again."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import output
from treadle.cli.progress import watcher
from treadle.engine import orchestrator, undo
from treadle.engine.find import find
from treadle.engine.undo import Undone
from treadle.project.project import open_project
from treadle.project.root import here, refuse_inside_run


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("run", metavar="RUN", help="Id of the run, or its beginning")
    parser.add_argument("--wait", action="store_true", help="Wait for another treadle to finish")


def run(args: Namespace) -> int:
    """Hold the project, undo, say how exactly."""
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    with orchestrator.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        found = undo.undo(tools, find(tools.store, args.run))
    told = {"run_id": found.run_id, "undone": found.commit, "branch": found.branch}
    return output.tell(args.json, told | {"exact": found.exact}, _print, found)


def _print(found: Undone) -> None:
    if found.commit is None:
        output.line(f"nothing to undo: {found.branch} holds nothing of run {found.run_id} any more")
        return
    same = "the tree is the one from before" if found.exact else "what came later stays"
    done = output.paint("UNDONE", "green")
    output.line(done, f"{found.commit[:12]} on {found.branch}; {same}")
    output.line(f"  next: treadle land {found.run_id}")
