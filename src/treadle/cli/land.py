"""`treadle land`: bring a passed run into its branch."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import consent, output
from treadle.cli.progress import watcher
from treadle.config.load import load
from treadle.engine import land, orchestrator
from treadle.engine.find import find
from treadle.engine.land import Landed
from treadle.project.project import open_project
from treadle.project.root import here, refuse_inside_run


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("run", metavar="RUN", help="Id of the run, or its beginning")
    parser.add_argument("--onto", metavar="BRANCH", help="Another branch than the run began on")
    parser.add_argument("--keep-steps", action="store_true", help="Keep one commit per step")
    parser.add_argument("--wait", action="store_true", help="Wait for another treadle to finish")


def run(args: Namespace) -> int:
    """Hold the project, land, say where the work is."""
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    consent.require(args, project, load(project.layout, project.env))
    with orchestrator.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        row = find(tools.store, args.run)
        found = land.land(tools, row, onto=args.onto, keep_steps=args.keep_steps)
    told = {"run_id": found.run_id, "landed": found.commit, "branch": found.branch}
    return output.tell(args.json, told | {"merged": found.merged}, _print, found)


def _print(found: Landed) -> None:
    if found.commit is None:
        output.line(
            f"nothing to land: {found.branch} holds everything that run {found.run_id} changed"
        )
        return
    how = ", merged with what came meanwhile" if found.merged else ""
    landed = output.paint("LANDED", "green")
    output.line(landed, f"{found.commit[:12]} on {found.branch}{how}")
    output.line(f"  next: git show {found.commit[:12]}")
    output.line(f"  next: treadle undo {found.run_id}")
