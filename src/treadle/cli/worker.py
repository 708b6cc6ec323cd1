"""`treadle worker`: take runs from the fleet's queue and drive them on this machine."""

from argparse import ArgumentParser, Namespace
from types import ModuleType

from treadle.cli import main
from treadle.errors import ConfigError


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("--slots", type=int, metavar="N", help="Runs side by side")
    parser.add_argument("--once", action="store_true", help="Leave after one run")
    parser.add_argument(
        "--idle-exit", type=float, metavar="SECONDS", help="Leave when nothing came for so long"
    )
    parser.add_argument(
        "--until", type=float, metavar="SECONDS", help="Drain after so long, and leave"
    )


def run(args: Namespace) -> int:
    """Load the engine only now: no other command needs it."""
    code: int = load("work").run(args)
    return code


def load(name: str) -> ModuleType:
    """Load a module that needs the extra, or say what to install."""
    try:
        return main.load(f"fleet_{name}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the fleet needs the extra `fleet`, which is not installed ({error.name})",
            code="extra_missing",
            fix=["pip install 'treadle[fleet]'"],
        ) from error
