"""One round of `treadle serve`: what is due is sent, resumed and carried out."""

import os
from argparse import Namespace

from treadle.cli import output
from treadle.cli.process import document
from treadle.cli.progress import watcher
from treadle.config.load import load
from treadle.engine import work
from treadle.errors import ExitCode
from treadle.inbox import decide, process
from treadle.inbox.process import Server
from treadle.project import trust
from treadle.project.project import open_project
from treadle.project.root import here


def once(args: Namespace) -> int:
    """Carry out what there is, where that is allowed, and say what came of it."""
    project = open_project(here(), os.environ)
    loaded = load(project.layout, project.env)
    trust.require(project, loaded, tuple(decide.commands(project.layout)))
    work.require_sandbox(loaded.config)
    summary = process.serve_once(Server(project, watcher(args.json)))
    if args.json and (summary.outcomes or summary.failed_hook):
        output.print_json(document(summary))
    elif summary.outcomes:
        done = sum(item.status == "done" for item in summary.outcomes)
        output.line(f"{done} done, {len(summary.outcomes) - done} not", flush=True)
    return summary.exit_code if summary.interrupted else ExitCode.DONE
