"""Replace or create a file in one instant."""

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Iterable
from pathlib import Path


def write(
    path: Path, data: bytes, *, mode: int = 0o644, durable: bool = True, mtime_ns: int | None = None
) -> None:
    """Write `data` to `path`: whole or not at all, and durable unless it is derived."""
    staged = path.with_name(f".{path.name}.tmp-{os.urandom(4).hex()}")
    try:
        create(staged, data, mode=mode, durable=durable)
        if mtime_ns is not None:
            os.utime(staged, ns=(mtime_ns, mtime_ns))
        staged.rename(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def create(path: Path | str, data: bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Write a new file that must not exist yet, never through a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durable:
            flush(descriptor)
    finally:
        os.close(descriptor)


def append(path: Path | str, data: bytes) -> None:
    """Add to the end of a file, made if it is not there: all of it or nothing, not yet durable."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if os.write(descriptor, data) != len(data):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


def deliver(folder: Path, names: Iterable[str], data: bytes, *, mode: int = 0o644) -> str:
    """Write `data` under the first free name, whole and durable; return the name."""
    staged = folder / f".{os.getpid()}-{os.urandom(6).hex()}.tmp"
    create(staged, data, mode=mode, durable=True)
    try:
        name = _link(staged, folder, names)
    finally:
        staged.unlink()
    sync(folder)
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


def _link(staged: Path, folder: Path, names: Iterable[str]) -> str:
    for name in names:
        with contextlib.suppress(FileExistsError):
            os.link(staged, folder / name, follow_symlinks=False)
            return name
    raise FileExistsError(f"{folder}: no free name")


def sync(path: Path | str) -> None:
    """Flush one file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def flush(descriptor: int) -> None:
    """Flush an open file; macOS needs its own call to reach the disk itself."""
    if sys.platform == "darwin":
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)
