"""Measure inside a process, and tell the harness on the last line."""

import contextlib
import json
import resource
import time
from collections.abc import Iterator
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


def peak_kb() -> int:
    """Return the most memory this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def own_cpu() -> float:
    """Return the CPU time of this process alone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own_cpu() + children.ru_utime + children.ru_stime
