"""`treadle fleet`: look at the workers and what waits for them, and let a worker leave."""

from argparse import ArgumentParser, Namespace

from treadle.cli import main


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("status", help="Show workers, the queue by repository, and stuck runs")
    drained = actions.add_parser("drain", help="Let a worker finish its steps and leave")
    drained.add_argument("worker", metavar="WORKER", help="Id of the worker, or its beginning")


def run(args: Namespace) -> int:
    """Look at the fleet's tables, or write a wish into them."""
    code: int = main.load("fleet_look").run(args)
    return code
