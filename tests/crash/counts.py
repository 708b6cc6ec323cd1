"""Count what a command asks of the machine: syncs, how many must wait for each other, programs."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_LINE = re.compile(r"(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)")
_SYNCS = ("fsync", "fdatasync", "syncfs", "sync")
_PROGRAM = re.compile(r'"([^"]+)"')


class Counts(NamedTuple):
    """One run in numbers; a barrier is a sync that could not overlap with the one before."""

    syncs: int
    barriers: int
    programs: Counter[str]


def argv(command: Sequence[str], log: Path) -> list[str]:
    """Return the command under strace, writing to `log`.

    Each sync is held for some milliseconds, so that those which can overlap do.
    """
    wanted = "trace=fsync,fdatasync,sync,syncfs,execve"
    slow = "inject=fsync,fdatasync:delay_enter=50000"
    flags = ["-f", "-qqq", "--seccomp-bpf", "-e", wanted, "-e", slow, "-o", str(log)]
    return ["strace", *flags, *command]


def read(log: Path) -> Counts:
    """Read what strace wrote."""
    begun: dict[str, int] = {}
    asked: dict[str, re.Match[str] | None] = {}
    spans: list[tuple[int, int]] = []
    programs: Counter[str] = Counter()
    for at, line in enumerate(log.read_text(errors="replace").splitlines()):
        match = _LINE.match(line)
        if match is None:
            continue
        pid, resumed, name, rest = match.groups()
        if name == "execve":
            asked[pid] = _PROGRAM.match(rest)
        if (resumed or name) == "execve":
            # Names tried along PATH and failed do not count.
            if rest.endswith("= 0") and (program := asked.get(pid)):
                programs[Path(program[1]).name] += 1
        elif resumed in _SYNCS:
            spans.append((begun.pop(pid), at))
        elif rest.endswith("<unfinished ...>"):
            begun[pid] = at
        else:
            spans.append((at, at))
    return Counts(len(spans), barriers(spans), programs)


def barriers(spans: Sequence[tuple[int, int]]) -> int:
    """Return the longest chain of syncs that followed each other."""
    count, free = 0, -1
    for start, end in sorted(spans, key=lambda span: span[1]):
        if start > free:
            count, free = count + 1, end
    return count
