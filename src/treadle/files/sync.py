"""Make what was written survive a power loss, many files at a time."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Syncs wait on the disk, not on a core: a few threads let the device order them together.
_POOL = ThreadPoolExecutor(max_workers=16, thread_name_prefix="fsync")


def sync(path: Path | str) -> None:
    """Flush one file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Iterable[Path | str]) -> None:
    """Flush all of these in parallel; one barrier for them together."""
    first, *others = list(paths)
    pending = [_POOL.submit(sync, path) for path in others]
    sync(first)
    for future in pending:
        future.result()


def flush(descriptor: int) -> None:
    """Flush an open file; macOS needs its own call to reach the disk itself."""
    if sys.platform == "darwin":
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)
