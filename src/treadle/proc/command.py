"""Say what to run and within which limits, find its program, and say how it ended."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

# How a command ended: by itself, at a limit, because it was to stop, or before it began.
Reason = (
    Literal["exit", "signal", "stopped", "missing", "not_executable", "lost"]
    | Literal["timeout", "idle_timeout", "output_limit", "disk_limit"]
    | Literal["memory_limit", "process_limit"]
)


class Limits(NamedTuple):
    """When a command is ended; None means never."""

    wall: float | None = None
    idle: float | None = None
    output_bytes: int | None = None
    grace: float = 5.0
    disk_bytes: int | None = None
    disk: tuple[Path, ...] = ()  # the folders that `disk_bytes` counts
    memory_bytes: int | None = None  # of all its processes together
    processes: int | None = None  # threads included
    growth_bytes: int | None = None
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


def find_program(name: str, env: Mapping[str, str]) -> str | Cause:
    """Return the path of a program: as it is with a slash, else from the PATH in `env`."""
    if "/" in name:
        return name
    found = [path for path in _places(name, env) if _is_file(path)]
    for path in found:
        if os.access(path, os.X_OK):
            return str(path)
    if found:
        return Cause("not_executable", _no_permission(str(found[0])))
    return Cause(
        "missing", f"{name or 'an empty name'} is not in PATH; install it or correct the command"
    )


def _places(name: str, env: Mapping[str, str]) -> list[Path]:
    # Relative entries would let a workspace bring its own `git`.
    folders = (env.get("PATH") or os.defpath).split(":")
    return [Path(folder) / name for folder in folders if name and folder.startswith("/")]


def foresee_refusal(program: str, folder: Path) -> Cause | None:
    """Foresee why a program cannot start, for a wrapper that would only say that it failed."""
    path = folder / program
    if not _is_file(path):
        return explain_refusal(program, folder, "program", _missing(path))
    if not os.access(path, os.X_OK):
        return explain_refusal(program, folder, "program", errno.EACCES)
    first = _first_line(path)
    if first.startswith(b"#!"):
        interpreter = (first[2:].split() or [b""])[0]
        return None if Path(os.fsdecode(interpreter)).exists() else _no_start(path, errno.ENOENT)
    return None if first.startswith(_BINARY) or not first else _no_start(path, errno.ENOEXEC)


def _missing(path: Path) -> int:
    return errno.EACCES if _is_folder(path) else errno.ENOENT


def _no_start(path: Path, number: int) -> Cause:
    return explain_refusal(str(path), path.parent, "program", number)


def explain_refusal(program: str, folder: Path, stage: str, number: int) -> Cause:
    """Turn the system's refusal to start a program into a sentence that helps."""
    if number in _BUSY:
        return Cause("lost", f"the system cannot start another process ({os.strerror(number)})")
    if stage == "sandbox":
        return Cause("lost", f"the kernel takes no further sandbox here ({os.strerror(number)})")
    if stage == "folder":
        return Cause("missing", f"{folder}: cannot work in this folder ({os.strerror(number)})")
    path = folder / program
    match number:
        case errno.ENOENT if _is_file(path):
            return Cause("missing", _no_interpreter(path))
        case errno.ENOENT | errno.ENOTDIR:
            return Cause("missing", f"{program} does not exist; install it or correct the command")
        case errno.EACCES if _is_folder(path):
            return Cause("not_executable", f"{program} is a folder; name the program in it")
        case errno.EACCES:
            return Cause("not_executable", _no_permission(program))
        case errno.ENOEXEC:
            text = f"{program} has no #! line; begin it with one, such as #!/bin/sh"
            return Cause("not_executable", text)
        case errno.E2BIG:
            text = f"{program} got more arguments or environment than the system can pass"
            return Cause("not_executable", text)
    return Cause("not_executable", f"{program} cannot be started ({os.strerror(number)})")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that may not be entered
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _no_permission(program: str) -> str:
    return f"{program} is not executable; run: chmod +x {program}"


def _no_interpreter(path: Path) -> str:
    first = _first_line(path)
    if not first.startswith(b"#!"):
        return f"{path} needs a loader this system does not have; install a build for this system"
    interpreter = (first[2:].split() or [b"nothing"])[0].decode(errors="replace")
    return (
        f"{path} begins with #!{interpreter}, which does not exist; install it or correct the line"
    )


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.readline(256)
    except OSError:  # it may be run but not read
        return b""
