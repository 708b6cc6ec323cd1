"""Print a completion script for a shell."""

from argparse import ArgumentParser, Namespace

import shtab

import treadle
from treadle.cli import main, output, parser

SHELLS = ("bash", "zsh", "fish", "tcsh")


def add_arguments(parser: ArgumentParser) -> None:
    """Say which shells are known."""
    parser.add_argument("shell", choices=SHELLS, help="The shell to complete in")


def run(args: Namespace) -> int:
    """Print the script; the whole command line is built for it."""
    script = shtab.complete(whole_parser(), args.shell)
    return output.tell(args.json, {"shell": args.shell, "script": script}, output.block, script)


def whole_parser() -> ArgumentParser:
    """Return one parser with every command in it."""
    whole = parser.Parser(prog="treadle", description=treadle.__doc__)
    whole.add_argument("--version", "-V", action="store_true", help="Print the version")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in main.COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        main.load(name).add_arguments(command)
    return whole
