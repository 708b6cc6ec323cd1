"""Put a whole file under a name that was free, and move files without replacing any.

Apart from `atomic` because commands that live for milliseconds load it: no threads, no ctypes.
"""

import fcntl
import os
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path


def deliver(folder: Path, names: Iterable[str], data: bytes) -> str:
    """Write `data` under the first free name, whole and durable; return the name."""
    staged = folder / f".{os.getpid()}-{os.urandom(6).hex()}.tmp"
    _write(staged, data)
    try:
        name = _link(staged, folder, names)
    finally:
        staged.unlink()
    _sync(folder)
    return name


def move(source: Path, folder: Path, names: Iterable[str]) -> str:
    """Rename a file into another folder, where its name may be taken; return the new name.

    Whoever asks has agreed with its likes on the name; the look before the rename is for
    files that other programs put there.
    """
    for name in names:
        if not os.path.lexists(folder / name):
            source.rename(folder / name)
            return name
    raise FileExistsError(f"{folder}: no free name for {source.name}")


def replace(path: Path, data: bytes, mtime_ns: int) -> None:
    """Replace a derived file in one instant and date it; what it shows is durable elsewhere."""
    staged = path.with_name(f".{os.getpid()}-{os.urandom(6).hex()}.tmp")
    try:
        staged.write_bytes(data)
        os.utime(staged, ns=(mtime_ns, mtime_ns))
        staged.rename(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def _link(staged: Path, folder: Path, names: Iterable[str]) -> str:
    place = str(folder)
    for name in _from_free(place, iter(names)):
        try:
            os.link(staged, f"{place}/{name}", follow_symlinks=False)
        except FileExistsError:
            continue
        return name
    raise FileExistsError(f"{folder}: no free name")


def _from_free(folder: str, names: Iterator[str]) -> Iterator[str]:
    """Yield names from where they begin to be free: letters of one second are called alike."""

    def is_free(name: str) -> bool:
        return not os.path.lexists(f"{folder}/{name}")

    size = 1
    while some := list(islice(names, size)):
        if is_free(some[-1]):
            yield from some[bisect_left(some, True, key=is_free) :]
        size *= 2


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        _flush(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _flush(descriptor)
    finally:
        os.close(descriptor)


def _flush(descriptor: int) -> None:
    """Flush to the disk itself, for which macOS has a call of its own."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:
            os.fsync(descriptor)
    else:
        os.fsync(descriptor)
