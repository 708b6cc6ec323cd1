"""Name every command and load only the one that was asked for."""

import gc
import os
import sys

import treadle

TYPE_CHECKING = False  # typing's own flag would load typing, and --version loads nothing
if TYPE_CHECKING:
    from types import ModuleType

COMMANDS = {
    "init": "Set treadle up in this repository",
    "uninstall": "Remove what init wrote",
    "trust": "Let the commands of this repository run",
    "doctor": "Check everything treadle needs",
    "config": "Show the configuration and where it comes from",
    "describe": "Tell programs every command and its arguments",
    "agent": "Show how an agent is run, and try it",
    "completion": "Print a completion script for a shell",
    "task": "Add, list, link and finish tasks",
    "mission": "Create missions and take them through their gates",
    "next": "Say what to do now, and take reports",
    "mail": "Send, claim, answer and search letters",
    "desk": "List everything that waits for you",
    "answer": "Answer what waits on the desk",
    "run": "Turn the wheel until the work passes or a budget stops it",
    "process": "Carry out waiting messages and unprocessed specs",
    "send": "Put a message into the inbox",
    "route": "Say which routine a text would get",
    "routine": "List, show and check routines",
    "dead": "List, show and retry dead letters",
    "serve": "Show the page, and carry out messages and specs as they come",
    "store": "Move the store to another database",
    "worker": "Take runs from the fleet's queue and drive them here",
    "fleet": "Show the workers and what waits for them, let one leave, make their key",
    "land": "Bring a passed run into its branch",
    "undo": "Take a landed run out again",
    "stop": "Stop a run from another terminal",
    "comment": "Say something about a step; the next act step is told",
    "runs": "List, show and prune runs",
    "log": "Show or follow the timeline of a run",
    "why": "Explain how a run ended",
    "report": "Tell a run as markdown, ready for a pull request",
    "replay": "Run a recording again, or make one",
    "demo": "Watch a whole run in a temporary repository",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; what needs nothing but the table loads nothing else."""
    words = sys.argv[1:] if argv is None else argv
    if words in (["--version"], ["-V"]):
        print(f"treadle {treadle.__version__}")
        return 0
    if words in ([], ["--help"], ["-h"], ["help"]):
        print(overview())
        return 0
    if argv is not None:
        code: int = load("invoke").invoke(words)
        return code
    # A command lives for milliseconds: collecting garbage and taking the interpreter down
    # would be a fifth of them. What works for hours turns the collector on again.
    gc.disable()
    _forget_folder()
    _open_standard_streams()
    load("lean").load()
    os._exit(load("invoke").invoke(words))


def _forget_folder() -> None:
    """Import nothing more from where the user stands: it may be somebody else's repository.

    That is the first place for `python -m` and `-c`, and what an empty or relative part of
    PYTHONPATH means.
    """
    unwanted = [] if sys.flags.safe_path else sys.path[:1]
    named = os.environ.get("PYTHONPATH")
    try:
        here = os.getcwd() if named else ""  # noqa: PTH109  # pathlib is not loaded for this
    except FileNotFoundError:  # as good as any other folder without modules
        named = None
    for part in named.split(os.pathsep) if named else ():
        if not part.startswith("/"):
            unwanted.append(os.path.normpath(f"{here}/{part}"))
    package = treadle.__path__[0].rpartition("/")[0]
    sys.path[:] = [place for place in sys.path if place == package or place not in unwanted]


def _open_standard_streams() -> None:
    """Give a closed stream a place that swallows everything, before a file gets its number."""
    while (nowhere := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(nowhere, True)
    os.close(nowhere)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115  # a number
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115  # a number


def load(name: str) -> "ModuleType":
    """Import one module of the command line: the only late import there is."""
    # Not importlib: the package costs a tenth of a bare start.
    module: ModuleType = __import__(f"treadle.cli.{name}", fromlist=[name])
    return module


def overview() -> str:
    """List the commands, a line each."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: treadle COMMAND [options]",
            "",
            f"{treadle.__doc__}",
            "",
            *lines,
            "",
            "treadle COMMAND --help explains a command; --json makes any of them answer in JSON.",
        ]
    )
