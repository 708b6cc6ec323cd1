"""`treadle serve`: keep carrying out messages and specs as they come."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import output
from treadle.cli.process import document
from treadle.cli.progress import watcher
from treadle.config.load import load
from treadle.engine import work
from treadle.engine.signals import Interrupts
from treadle.errors import ExitCode
from treadle.inbox import plan, serve
from treadle.inbox.serve import Server
from treadle.project import trust
from treadle.project.project import open_project
from treadle.project.root import here, refuse_inside_run


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("--no-web", action="store_true", help="Serve no page")


def run(args: Namespace) -> int:
    """Watch until a signal comes."""
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    loaded = load(project.layout, project.env)
    trust.require(project, loaded, tuple(plan.commands(project.layout)))
    work.require_sandbox(loaded.config)
    interrupts = Interrupts()
    with interrupts.installed():
        server = Server(project, watcher(args.json), interrupts.reason)
        for summary in serve.serve(server):
            if args.json:
                output.print_json(document(summary))
            else:
                done = sum(item.status == "done" for item in summary.outcomes)
                print(f"{done} done, {len(summary.outcomes) - done} not", flush=True)
            if summary.interrupted:
                return summary.exit_code
    is_int = interrupts.name == "SIGINT"
    return ExitCode.INTERRUPTED if is_int else ExitCode.TERMINATED
