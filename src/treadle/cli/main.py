"""Name every command and load only the one that was asked for."""

import gc
import os
import sys

import treadle

TYPE_CHECKING = False  # typing's own flag would load typing, and --version loads nothing
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

# Each command with the module that knows its arguments (in `add_COMMAND`) and what it is for.
COMMANDS = {
    "init": ("setup", "Set up treadle in this repository"),
    "uninstall": ("setup", "Remove what init wrote"),
    "trust": ("setup", "Allow the commands of this repository to run"),
    "doctor": ("setup", "Check everything treadle needs"),
    "config": ("setup", "Show the configuration and where each value comes from"),
    "describe": ("describe", "List every command with its arguments, for programs"),
    "agent": ("agent", "Show how an agent is run, and try it"),
    "completion": ("describe", "Print a completion script for a shell"),
    "task": ("task", "Add, list, link and finish tasks"),
    "mission": ("mission", "Create missions and take them through their gates"),
    "next": ("mission", "Ask what to do next in a mission, and report how it went"),
    "mail": ("mail", "Send, claim, answer and search letters"),
    "desk": ("desk", "List everything that waits for you"),
    "answer": ("desk", "Answer a question on the desk"),
    "run": ("run", "Work on tasks or a goal until the checks pass or a budget runs out"),
    "process": ("process", "Work through waiting messages and unprocessed specs"),
    "send": ("inbox", "Put a message into the inbox"),
    "route": ("process", "Show which routine a text would get"),
    "routine": ("process", "List, show and check routines"),
    "dead": ("inbox", "List, show and retry dead letters"),
    "serve": ("serve", "Serve the page, and work through messages and specs as they come"),
    "store": ("setup", "Copy the store to another database"),
    "worker": ("fleet", "Take runs from the fleet's queue and work on them here"),
    "fleet": ("fleet", "Show the fleet's workers and queue, drain a worker, make the key"),
    "land": ("land", "Merge a passed run into its branch"),
    "undo": ("land", "Revert a landed run"),
    "stop": ("runs", "Stop a run from another terminal"),
    "comment": ("runs", "Comment on a step for the next act step to read"),
    "runs": ("runs", "List, show and prune runs"),
    "log": ("runs", "Show or follow the timeline of a run"),
    "why": ("runs", "Explain how a run ended"),
    "report": ("report", "Print a run as markdown, ready for a pull request"),
    "replay": ("run", "Run a recording again, or export one"),
    "demo": ("demo", "Watch a whole run in a temporary repository"),
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
    if argv is None:
        # A command is over before there is garbage worth looking for.
        gc.set_threshold(50_000)
        _forget_folder()
        _open_standard_streams()
    code: int = call("invoke.invoke", words)
    if argv is None:
        os._exit(code)  # taking the interpreter down costs a tenth of a short command
    return code


def call(name: str, *given: object) -> "Any":
    """Call a function of the command line, `module.function`: the only late import there is.

    Commands and their parsers are found so, and the rare parts of a command that load far more
    of treadle than the rest of it.
    """
    module, _, function = name.partition(".")
    # Not importlib: the package costs a tenth of a bare start.
    found = __import__(f"treadle.cli.{module}", fromlist=[module])
    return getattr(found, function)(*given)


def add_arguments(name: str, parser: "ArgumentParser") -> None:
    """Let the module of a command describe its command line."""
    call(f"{COMMANDS[name][0]}.add_{name}", parser)


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


def overview() -> str:
    """List the commands, a line each."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {summary}" for name, (_, summary) in COMMANDS.items()]
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
