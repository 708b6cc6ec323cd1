"""Delete folders that were made to resist it."""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from treadle.files import walk


def remove_tree(path: Path) -> None:
    """Remove `path` and everything below it, however deep, never following a link.

    Nested folders are first moved up into `path` itself, so that neither the
    recursion limit nor the longest possible path stands in the way.
    """
    if not walk.is_folder(path):
        if os.path.lexists(path):
            path.unlink()
        return
    token, moved = secrets.token_hex(4), 0
    pending = [path]
    while pending:
        folder = pending.pop()
        for name in _empty(folder):
            child = folder / name
            if folder != path:
                moved += 1
                _open_up(child)
                child = child.rename(path / f".gone-{token}-{moved}")
            pending.append(child)
        if folder != path:
            folder.rmdir()
    path.rmdir()


def empty(folder: Path) -> None:
    """Make the folder, or clear it: making one anew costs more."""
    if not _is_open(folder):
        if folder.is_symlink():
            folder.unlink()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _open_up(folder)
    for name in walk.names(folder):
        remove_tree(folder / name)


def _is_open(folder: Path) -> bool:
    """Tell whether this is a folder that its owner can change, and no link to one."""
    try:
        mode = os.lstat(folder).st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(mode) and mode & 0o700 == 0o700


def _empty(folder: Path) -> list[str]:
    """Delete the files of one folder and return the names of the folders in it."""
    _open_up(folder)
    nested = []
    with os.scandir(folder) as found:
        for item in found:
            if item.is_dir(follow_symlinks=False):
                nested.append(item.name)
            else:
                Path(item.path).unlink()
    return nested


def _open_up(folder: Path) -> None:
    """Let the owner in, where an agent took its own rights away."""
    with contextlib.suppress(OSError):
        if stat.S_IMODE(folder.stat().st_mode) & 0o700 != 0o700:
            folder.chmod(0o700)
