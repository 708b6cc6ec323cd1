"""Find what would make git wait or read for ever: pipes, sockets, devices, endless settings."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from treadle.errors import BlockedError, argument
from treadle.files import remove

# Git reads these by itself wherever they lie, some of them through a link.
_READ = frozenset((".gitattributes", ".gitignore", ".gitmodules", ".mailmap"))
_MAX_BYTES = 16 << 20


def require_readable(root: Path) -> None:
    """Refuse a checkout of the user's in which git would wait for a file of settings."""
    found = next((path for path in find(root) if path.rpartition("/")[2] in _READ), None)
    if found:
        raise BlockedError(
            f"{found} cannot be read to its end, and git would wait for it",
            code="special_file",
            fix=[f"rm {argument(found)}"],
        )


def find(root: Path, *, opens: bool = False) -> Iterator[str]:
    """Yield the paths below a work tree, relative to it, that git must not look at.

    Only names and types are read. A folder that cannot be listed is opened up first, if asked;
    one whose path is too long to be named is none that git could enter.
    """
    pending = [""]
    while pending:
        folder = pending.pop()
        for item in _entries(f"{root}/{folder}", opens=opens):
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
    found = tuple(sorted(find(root, opens=True)))
    for path in found:
        remove.remove_tree(root / path)
    return found


def _entries(folder: str, *, opens: bool) -> list[os.DirEntry[str]]:
    for _ in range(2):
        try:
            with os.scandir(folder) as found:
                return list(found)
        except PermissionError:
            if not opens:
                break
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
