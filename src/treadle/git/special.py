"""Find what would make git wait or read for ever: pipes, sockets, devices, endless settings."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from treadle.files import remove

# Git reads these by itself wherever they lie, some of them through a link.
_READ = frozenset((".gitattributes", ".gitignore", ".gitmodules", ".mailmap"))
_MAX_BYTES = 16 << 20


def find(root: Path) -> Iterator[str]:
    """Yield the paths below a work tree, relative to it, that git must not look at.

    Only names and types are read. A folder that cannot be listed is opened up first; one whose
    path is too long to be named is none that git could enter.
    """
    pending = [""]
    while pending:
        folder = pending.pop()
        for item in _entries(f"{root}/{folder}"):
            path = folder + item.name
            if item.is_file(follow_symlinks=False):
                if item.name in _READ and _is_endless(item.path):
                    yield path
            elif item.is_dir(follow_symlinks=False):
                if path != ".git":
                    pending.append(f"{path}/")
            elif not item.is_symlink() or (item.name in _READ and _is_endless(item.path)):
                yield path


def clear(root: Path) -> tuple[str, ...]:
    """Remove what git must not look at, and return it; it holds nothing once nobody uses it."""
    found = tuple(sorted(find(root)))
    for path in found:
        remove.remove_tree(root / path)
    return found


def _entries(folder: str) -> list[os.DirEntry[str]]:
    for _ in range(2):
        try:
            with os.scandir(folder) as found:
                return list(found)
        except PermissionError:
            with contextlib.suppress(OSError):
                Path(folder).chmod(0o700)
        except OSError:
            break
    return []


def _is_endless(path: str) -> bool:
    """Tell whether a file of settings, or what it links to, is none that can be read to its end."""
    try:
        state = os.stat(path)  # noqa: PTH116  # in the inner loop of a walk
    except OSError:
        return False
    return not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_BYTES
