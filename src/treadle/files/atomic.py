"""Replace or create a file in one instant."""

import ctypes
import errno
import os
import secrets
import sys
from pathlib import Path

from treadle.files.sync import flush, sync

_NOREPLACE = 1
_AT_FDCWD = -100


def write(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path`: whole and durable, or not at all."""
    staged = path.with_name(f".{path.name}.tmp-{secrets.token_hex(4)}")
    try:
        create(staged, data, mode=mode, durable=True)
        staged.rename(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
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


def rename_new(source: Path | str, target: Path | str) -> None:
    """Rename `source` to a name that must be free; FileExistsError otherwise."""
    if sys.platform == "linux" and _renameat2(source, target):
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    os.rename(source, target)


def _renameat2(source: Path | str, target: Path | str) -> bool:
    """Use the kernel's no-replace rename; False where it has none."""
    old, new = os.fsencode(source), os.fsencode(target)
    if _LIBC.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, _NOREPLACE) == 0:
        return True
    error = ctypes.get_errno()
    if error in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(error, os.strerror(error), str(source), None, str(target))


_LIBC = ctypes.CDLL(None, use_errno=True)
