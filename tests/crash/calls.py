"""Name the system calls that change files, with their numbers and where their paths stand."""

import platform
from typing import NamedTuple


class Shape(NamedTuple):
    """Where one call keeps its file: a descriptor, or (folder descriptor, path) pairs."""

    number: int
    descriptor: int | None = None
    paths: tuple[tuple[int | None, int], ...] = ()
    flags: int | None = None


_X86_64 = {
    "write": Shape(1, 0),
    "open": Shape(2, None, ((None, 0),), 1),
    "pwrite64": Shape(18, 0),
    "writev": Shape(20, 0),
    "sendfile": Shape(40, 0),
    "fsync": Shape(74, 0),
    "fdatasync": Shape(75, 0),
    "truncate": Shape(76, None, ((None, 0),)),
    "ftruncate": Shape(77, 0),
    "rename": Shape(82, None, ((None, 0), (None, 1))),
    "mkdir": Shape(83, None, ((None, 0),)),
    "rmdir": Shape(84, None, ((None, 0),)),
    "creat": Shape(85, None, ((None, 0),)),
    "link": Shape(86, None, ((None, 0), (None, 1))),
    "unlink": Shape(87, None, ((None, 0),)),
    "symlink": Shape(88, None, ((None, 1),)),
    "chmod": Shape(90, None, ((None, 0),)),
    "fchmod": Shape(91, 0),
    "openat": Shape(257, None, ((0, 1),), 2),
    "mkdirat": Shape(258, None, ((0, 1),)),
    "unlinkat": Shape(263, None, ((0, 1),)),
    "renameat": Shape(264, None, ((0, 1), (2, 3))),
    "linkat": Shape(265, None, ((0, 1), (2, 3))),
    "symlinkat": Shape(266, None, ((1, 2),)),
    "fchmodat": Shape(268, None, ((0, 1),)),
    "sync_file_range": Shape(277, 0),
    "fallocate": Shape(285, 0),
    "pwritev": Shape(296, 0),
    "syncfs": Shape(306, 0),
    "renameat2": Shape(316, None, ((0, 1), (2, 3))),
    "copy_file_range": Shape(326, 2),
    "pwritev2": Shape(328, 0),
    "openat2": Shape(437, None, ((0, 1),)),
}
_AARCH64_NUMBERS = {
    "write": 64,
    "pwrite64": 68,
    "writev": 66,
    "sendfile": 71,
    "fsync": 82,
    "fdatasync": 83,
    "truncate": 45,
    "ftruncate": 46,
    "fchmod": 52,
    "openat": 56,
    "mkdirat": 34,
    "unlinkat": 35,
    "renameat": 38,
    "linkat": 37,
    "symlinkat": 36,
    "fchmodat": 53,
    "sync_file_range": 84,
    "fallocate": 47,
    "pwritev": 70,
    "syncfs": 267,
    "renameat2": 276,
    "copy_file_range": 285,
    "pwritev2": 287,
    "openat2": 437,
}
_MACHINES = {
    "x86_64": (0xC000003E, 317, _X86_64),
    "aarch64": (
        0xC00000B7,
        277,
        {name: _X86_64[name]._replace(number=at) for name, at in _AARCH64_NUMBERS.items()},
    ),
}


def is_known_machine() -> bool:
    """Tell whether this processor's call numbers are in the tables."""
    return platform.machine() in _MACHINES


def architecture() -> int:
    """Return the kernel's name for this processor, as a filter sees it."""
    return _MACHINES[platform.machine()][0]


def seccomp_number() -> int:
    """Return the number of seccomp(2) itself."""
    return _MACHINES[platform.machine()][1]


def write_calls() -> dict[str, Shape]:
    """Return every call that changes files or makes them durable."""
    return _MACHINES[platform.machine()][2]
