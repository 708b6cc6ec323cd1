"""Look at a routine before a message is given to it."""

import re
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from treadle.errors import BlockedError, TreadleError
from treadle.inbox import variables
from treadle.inbox.bounds import Host
from treadle.inbox.routines import Routine
from treadle.proc import capture, environment
from treadle.proc.keeper import Limits

_TIMEOUT = 60.0
_OUTPUT = 1 << 20
_SHELLS = re.compile(r"#!.*\b(sh|bash|dash|ksh|zsh)\b")
_SAID = 300


def require(host: Host, routine: Routine) -> None:
    """Refuse a routine that says, or shows, that it cannot work here now."""
    problem = next(blocking(host, routine), None)
    if problem:
        raise BlockedError(
            f"routine {routine.name} cannot work here: {problem}",
            code="pre_check_failed",
            fix=[f"treadle routine check {routine.name}"],
        )


def problems(host: Host, routine: Routine) -> Iterator[str]:
    """Yield everything that is wrong with a routine."""
    yield from blocking(host, routine)
    if routine.kind == "sh":
        yield from _syntax(host.env, routine)
    if routine.kind != "builtin" and not routine.summary:
        yield "it has no description; a router knows nothing of it"
    if routine.when and not _is_pattern(routine.when):
        yield f"when: {routine.when!r} is no regular expression"
    for name in routine.parameters:
        if not variables.is_free(name):
            yield f"{name} cannot be set by a message: the system or treadle uses that name"


def blocking(host: Host, routine: Routine) -> Iterator[str]:
    """Yield why the routine cannot be run at all."""
    if routine.kind == "ipynb" and find_spec("nbclient") is None:
        yield "nothing is installed that executes notebooks: pip install 'treadle[notebooks]'"
    if routine.pre_check:
        yield from _run(host, routine.pre_check)


def _run(host: Host, command: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="treadle-check-") as name:
        log = Path(name) / "output"
        limits = Limits(wall=_TIMEOUT, idle=None, output_bytes=_OUTPUT)
        ended = host.run(("sh", "-c", command), limits, (log, log))
        said = log.read_bytes()[:_SAID].decode(errors="replace").strip()
        denied = host.bounds.denied(log, host.env)
    if ended.reason != "exit":
        yield f"pre-check {command!r} did not end ({ended.detail or ended.reason})"
    elif ended.exit_code:
        told = f": {said}" if said else ""
        yield f"pre-check {command!r} exited with {ended.exit_code}{told}{denied}"


def _syntax(env: Mapping[str, str], routine: Routine) -> Iterator[str]:
    path = str(routine.path)
    with Path(path).open(errors="replace") as handle:
        first = handle.readline()
    found = _SHELLS.match(first)
    if first.startswith("#!") and not found:
        return
    shell = found[1] if found else "sh"
    try:
        done = capture.run([shell, "-n", path], env=environment.allowed(env), timeout=_TIMEOUT)
    except TreadleError as error:
        yield error.message
        return
    if done.returncode:
        yield done.stderr.decode(errors="replace").strip()[:_SAID]


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
