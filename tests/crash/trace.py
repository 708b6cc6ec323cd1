"""Record the file work of a command and all its children with strace, and read it back."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.crash.supervise import Command, Ending, run

_TRACED = (
    "?open,openat,?openat2,?creat,write,pwrite64,writev,pwritev,?pwritev2,sendfile,"
    "?copy_file_range,splice,truncate,ftruncate,fallocate,?rename,?renameat,?renameat2,?link,"
    "linkat,?unlink,unlinkat,?mkdir,mkdirat,?rmdir,?symlink,symlinkat,?mknod,mknodat,fsync,"
    "fdatasync,sync,syncfs,msync,lseek,chdir,fchdir,?clone,?clone3,?fork,?vfork,?mmap"
)
_WHOLE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\w+|\?)(.*)", re.DOTALL)
_BEGUN = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>", re.DOTALL)
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_OPENED = re.compile(r"(-?\w+)<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?")


class Begun(NamedTuple):
    """A call that has started while others go on."""

    pid: int
    name: str
    args: list[str]


class Done(NamedTuple):
    """A call that has returned without an error."""

    pid: int
    name: str
    args: list[str]
    result: int


class Descriptor(NamedTuple):
    """An open file as a call names it; `path` is empty for a deleted one."""

    number: int | None
    path: str


def is_available() -> bool:
    """Tell whether strace is installed."""
    return shutil.which("strace") is not None


def record(command: Command, output: Path, log: Path, timeout: float = 300.0) -> Ending:
    """Run a command under strace, every byte it writes included."""
    flags = ["-f", "-y", "-xx", "-qqq", "--seccomp-bpf", "-s", "67108864", "-e", "signal=none"]
    argv = ["strace", *flags, "-e", f"trace={_TRACED}", "-o", str(log), *command.argv]
    return run(command._replace(argv=argv), output, timeout)


def read(log: Path) -> Iterator[Begun | Done]:
    """Yield what happened, in order; failed calls are left out."""
    halves: dict[str, str] = {}
    with log.open(encoding="ascii") as lines:
        for line in lines:
            if begun := _BEGUN.match(line):
                pid, name, args = begun.groups()
                halves[pid] = args
                yield Begun(int(pid), name, split(args))
            elif resumed := _RESUMED.match(line):
                pid, name, rest = resumed.groups()
                yield from _done(f"{pid} {name}({halves.pop(pid)}{rest}")
            else:
                yield from _done(line)


def split(args: str) -> list[str]:
    """Split an argument list at its outer commas (strings hold only hex, so no commas)."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r"[\[\]{}]|, ", args):
        mark = match.group()
        if mark == ", " and depth == 0:
            parts.append(args[start : match.start()])
            start = match.end()
        elif mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1
    return [*parts, args[start:]]


def data(arg: str) -> bytes:
    """Return the bytes of one or several quoted strings."""
    whole = bytearray()
    for digits, cut in _TEXT.findall(arg):
        if cut:
            raise ValueError("strace cut a string short; raise its limit")
        whole += unhex(digits)
    return bytes(whole)


def unhex(text: str) -> bytes:
    """Decode strace's escapes."""
    return bytes.fromhex(text.replace("\\x", ""))


def descriptor(arg: str) -> Descriptor:
    """Read `5</path>`, with None as the number of the current directory."""
    opened = _OPENED.match(arg)
    if opened is None:
        return Descriptor(int(arg) if arg.isdigit() else None, "")
    number, path, gone = opened.groups()
    known = int(number) if number.lstrip("-").isdigit() else None
    return Descriptor(known, "" if gone else unhex(path).decode(errors="surrogateescape"))


def _done(line: str) -> Iterator[Done]:
    whole = _WHOLE.match(line)
    if whole is None:
        return
    pid, name, args, result, _ = whole.groups()
    if result.startswith("-") or result == "?":
        return
    yield Done(int(pid), name, split(args), int(result, 0))
