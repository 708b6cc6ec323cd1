"""Say what to run and within which limits, find its program, and say how it ended."""

import errno
import os
import sys
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple

# How a command ended: by itself, at a limit, because it was to stop, or before it began.
Reason = (
    Literal["exit", "signal", "stopped", "missing", "not_executable", "lost"]
    | Literal["timeout", "idle_timeout", "output_limit", "disk_limit"]
    | Literal["memory_limit", "process_limit"]
)


UNLIMITED = sys.maxsize


class Limits(NamedTuple):
    """When a command is ended; what is not given never is the reason."""

    wall: float = inf
    idle: float = inf
    output_bytes: int = UNLIMITED
    grace: float = 5.0
    disk_bytes: int = UNLIMITED
    disk: tuple[Path, ...] = ()  # the folders that `disk_bytes` counts
    memory_bytes: int = UNLIMITED  # of all its processes together
    processes: int = UNLIMITED  # threads included
    growth_bytes: int = UNLIMITED
    growing: tuple[Path, ...] = ()  # the folders that may hold much, and grow by `growth_bytes`


class Jail(NamedTuple):
    """What holds a command in: a program around it, or rules that the kernel takes.

    With `access`, the shim takes Landlock's rules and the filter before it starts the command;
    otherwise the wrapper finds the filter on descriptor 3, and is started within `scope`. `lasting`
    are rules about the rights in `seen`, written as one text: they stay the same, so a shim makes
    them once.
    """

    wrapper: tuple[str, ...] = ()
    filter: bytes = b""
    access: int = 0
    scope: int = 0
    rules: tuple[tuple[int, str], ...] = ()
    seen: int = 0
    lasting: tuple[tuple[int, int, str], ...] = ()


class Command(NamedTuple):
    """One program with everything it gets."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: Path | None
    stdout: Path
    stderr: Path
    limits: Limits = Limits()
    jail: Jail | None = None


class Ended(NamedTuple):
    """How a command ended; if `vouched`, by now nothing it started is alive."""

    reason: Reason
    exit_code: int | None
    signal: int | None
    seconds: float
    stragglers: int
    detail: str
    output_bytes: int
    vouched: bool = True


class Cause(NamedTuple):
    """Why a command could not start or may not go on."""

    reason: Reason
    detail: str


_BINARY = (b"\x7fELF", b"\xfe\xed\xfa", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_BUSY = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def find_program(command: Command) -> str | Cause:
    """Return the path of a command's program, or why it cannot start.

    A name with a slash is taken as it is, another one is looked for in the command's own PATH.
    """
    name = command.argv[0] if command.argv else ""
    if "/" in name:
        return _refusal(name, command) or name
    # Relative entries would let a workspace bring its own `git`.
    folders = (command.env.get("PATH") or os.defpath).split(":")
    places = [f"{folder}/{name}" for folder in folders if name and folder.startswith("/")]
    found = [path for path in places if os.path.isfile(path)]
    if found:
        path = next((it for it in found if os.access(it, os.X_OK)), found[0])
        return _refusal(path, command) or path
    name = name or "an empty name"
    return Cause("missing", f"{name} is not in PATH; install it or correct the command")


def _refusal(program: str, command: Command) -> Cause | None:
    """Foresee why a program cannot start, because a wrapper would only say that it failed."""
    path = os.path.join(command.cwd, program)
    if os.path.isdir(path):
        return Cause("not_executable", f"{program} is a folder; name the program in it")
    if not os.path.isfile(path):
        is_lost = not os.path.isdir(command.cwd)  # which is told when it starts
        text = f"{program} does not exist; install it or correct the command"
        return None if is_lost else Cause("missing", text)
    if not os.access(path, os.X_OK):
        text = f"{program} is not executable; run: chmod +x {program}"
        return Cause("not_executable", text)
    first = _first_line(path)
    if first.startswith(b"#!"):
        interpreter = os.fsdecode((first[2:].split() or [b"nothing"])[0])
        text = f"{path} begins with #!{interpreter}, which does not exist"
        is_there = os.path.exists(os.path.join(command.cwd, interpreter))
        return None if is_there else Cause("missing", f"{text}; install it or correct the line")
    is_wrapped = command.jail and command.jail.wrapper
    if is_wrapped and first and not first.startswith(_BINARY):
        return explain_refusal(program, command.cwd, "program", errno.ENOEXEC)
    return None


def _first_line(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.readline(256)
    except OSError:  # it may be run but not read
        return b""


def explain_refusal(program: str, folder: Path, stage: str, number: int) -> Cause:
    """Turn the system's refusal to start a program into a sentence that helps."""
    told = os.strerror(number)
    if number in _BUSY:
        return Cause("lost", f"the system cannot start another process ({told})")
    if stage == "sandbox":
        return Cause("lost", f"the kernel allows no further sandbox here ({told})")
    if stage == "folder":
        return Cause("missing", f"{folder}: cannot work in this folder ({told})")
    if number == errno.ENOENT:
        text = "needs a loader this system does not have; install a build for this system"
        return Cause("missing", f"{folder / program} {text}")
    reasons = {
        errno.ENOEXEC: "has no #! line; begin it with one, such as #!/bin/sh",
        errno.E2BIG: "got more arguments or environment than the system can pass",
    }
    reason = reasons.get(number, f"cannot be started ({told})")
    return Cause("not_executable", f"{program} {reason}")
