"""Measure inside a process, and tell the harness on the last line."""

import contextlib
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def measured(**more: float) -> Iterator[dict[str, Any]]:
    """Time the block; figures put into the yielded dict are told as well.

    CPU time covers this process and the children that were waited for meanwhile.
    """
    figures: dict[str, Any] = dict(more)
    cpu, begun = _cpu(), time.perf_counter()
    yield figures
    wall = figures.pop("wall", None) or time.perf_counter() - begun
    print(json.dumps({"wall": wall, "cpu": _cpu() - cpu, **figures}))


def used() -> tuple[float, float]:
    """Return the wall clock and the CPU time so far, to be subtracted from a later reading."""
    return time.perf_counter(), _cpu()


class Memory:
    """Watch how much this process grows.

    Not by ru_maxrss: a spawned process starts with its parent's peak there.
    """

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self.before = _status("VmRSS")

    def grown_kb(self) -> int:
        """Return how far the peak went above the start."""
        return _status("VmHWM") - self.before


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise ValueError(f"the kernel does not tell {name}")


def own_cpu() -> float:
    """Return the CPU time of this process alone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own_cpu() + children.ru_utime + children.ru_stime
