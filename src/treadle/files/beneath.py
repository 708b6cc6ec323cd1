"""Open what lies below a folder without ever leaving it, whatever the names in between are."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from treadle.errors import NotFoundError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open a plain file by its path relative to `folder`; no part of it may be a link or `..`."""
    parts = name.split("/")
    if not all(parts) or any(part in (".", "..") or "\0" in part for part in parts):
        raise _missing(name)
    with contextlib.ExitStack() as stack:
        try:
            at = _closing(stack, os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for part in parts[:-1]:
                at = _closing(stack, os.open(part, _FOLDER, dir_fd=at))
            found = os.open(parts[-1], _FILE, dir_fd=at)
        except (OSError, ValueError) as error:
            raise _missing(name) from error
        if not stat.S_ISREG(os.fstat(found).st_mode):
            os.close(found)
            raise _missing(name)
        yield stack.enter_context(os.fdopen(found, "rb"))


def _closing(stack: contextlib.ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _missing(name: str) -> NotFoundError:
    return NotFoundError(f"there is no file {name!r}")
