"""`treadle report`: tell a run in a form to hand on."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import main, output
from treadle.engine import report
from treadle.engine.find import find
from treadle.project.project import open_project
from treadle.project.root import here
from treadle.store.store import Reader


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("run", metavar="RUN", help="Id of the run, or its beginning")
    parser.add_argument("--html", metavar="FILE", help="As one page that needs nothing else")
    parser.add_argument("--markdown", action="store_true", help="As markdown, which is the default")


def run(args: Namespace) -> int:
    """Read, tell, print."""
    if args.html:
        # Drawing loads far more of treadle than printing does.
        code: int = main.load("report_page").run(args)
        return code
    project = open_project(here(), os.environ)
    with Reader.open(project.layout) as store:
        row = find(store, args.run)
        text = report.markdown(project, store, row)
    told = {"run_id": row.run_id, "markdown": text}
    return output.tell(args.json, told, output.block, text)
