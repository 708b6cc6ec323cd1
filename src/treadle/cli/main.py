"""Name every command and load only the one that was asked for."""

import gc
import os
import sys

import treadle

TYPE_CHECKING = False  # typing's own flag would load typing, and --version loads nothing
if TYPE_CHECKING:
    from typing import Any

    Command = tuple[str, str, list[str]]  # what it calls, what it is for, its arguments


def _read_table() -> "tuple[dict[str, Command], dict[str, list[str]]]":
    """Read every command, what it calls, what it is for and its arguments; and shared ones."""
    commands: dict[str, Command] = {}
    shared: dict[str, list[str]] = {}
    with open(f"{os.path.dirname(__file__)}/commands.txt", encoding="utf-8") as table:
        for block in table.read().split("\n\n"):
            head, *arguments = block.strip().removeprefix("# ").split("\n")
            if head.startswith("@"):
                shared[head] = arguments
            else:
                called, _, summary = head.partition(": ")
                name, _, function = called.partition(" -> ")
                commands[name] = (function, summary, arguments)
    return commands, shared


COMMANDS, SHARED = _read_table()


def top_level() -> "list[str]":
    """Return the commands that are no sub-command of another."""
    return [name for name in COMMANDS if " " not in name]


def main(argv: list[str] | None = None) -> int:
    """Run one command; what needs nothing but the table loads nothing else."""
    words = sys.argv[1:] if argv is None else argv
    if words in (["--version"], ["-V"]):
        return _print(f"treadle {treadle.__version__}")
    if words in (["--help"], ["-h"], ["help"]):
        return _print(overview())
    if argv is None:
        gc.disable()  # until the command is loaded
        _forget_folder()
        _open_standard_streams()
    code: int = call(*_asked(words))
    if argv is None:
        os._exit(code)  # taking the interpreter down costs a tenth of a short command
    return code


def _asked(words: list[str]) -> "tuple[str, list[str]]":
    """Return what is called; completion scripts ask for words with a command that nobody types."""
    is_completion = words[:1] == ["complete"]
    return ("complete.print_words", words[1:]) if is_completion else ("invoke.invoke", words)


def _print(text: str) -> int:
    try:
        print(text, flush=True)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"treadle: {error.strerror}", file=sys.stderr)
        return drop_output()
    return 0


def drop_output() -> int:
    """Nobody reads any more: let the interpreter's own last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return 1


def call(name: str, *given: object) -> "Any":
    """Call a function of the command line.

    Commands are called so, and the rare parts of one that load far more than the rest of it.
    """
    return find(name)(*given)


def find(name: str) -> "Any":
    """Return a function of the command line, `module.function`: the only late import there is."""
    module, _, function = name.partition(".")
    # Not importlib: the package costs a tenth of a bare start.
    found = __import__(f"treadle.cli.{module}", fromlist=[module])
    return getattr(found, function)


def collect_garbage() -> None:
    """Look for garbage from now on, but not among what was loaded: all of that stays."""
    if not gc.isenabled():
        gc.freeze()
        # A short command is over before there is garbage worth looking for.
        gc.set_threshold(50_000)
        gc.enable()


def _forget_folder() -> None:
    """Import nothing more from where the user stands: it may be somebody else's repository.

    That is the first place for `python -m` and `-c`, and what an empty or relative part of
    PYTHONPATH means.
    """
    unwanted = [] if sys.flags.safe_path else sys.path[:1]
    named = os.environ.get("PYTHONPATH")
    try:
        here = os.getcwd() if named else ""
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
    names = top_level()
    width = max(map(len, names))
    listed = "\n".join(f"  {name:{width}}  {COMMANDS[name][1]}" for name in names)
    last = "treadle COMMAND --help explains a command; --json makes any of them answer in JSON."
    return f"usage: treadle COMMAND [options]\n\n{treadle.__doc__}\n\n{listed}\n\n{last}"
