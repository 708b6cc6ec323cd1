"""Make many files survive a power loss at once, and give a finished folder its name."""

import ctypes
import errno
import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import Thread

from treadle.files import walk
from treadle.files.atomic import sync

# Syncs wait on the disk, not on a core: a few threads let the device order them together.
_THREADS = 16
_NOREPLACE = 1
_AT_FDCWD = -100


def sync_all(paths: Iterable[Path | str]) -> None:
    """Flush all of these in parallel; one barrier for them together."""
    names = list(paths)
    left, failed = iter(names), list[Exception]()

    def flush() -> None:
        try:
            for name in left:
                sync(name)
        except Exception as error:  # noqa: BLE001  # raised where all of them are waited for
            failed.append(error)

    helpers = [Thread(target=flush) for _ in names[1:_THREADS]]
    for helper in helpers:
        helper.start()
    flush()
    for helper in helpers:
        helper.join()
    if failed:
        raise failed[0]


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


def sha256(path: Path | str) -> str:
    """Return a file's digest."""
    with walk.plain_file(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
