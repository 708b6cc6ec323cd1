"""Delete folders that were made to resist it, through open descriptors: no name is followed."""

import os
import secrets
import stat
from pathlib import Path

_HOLD = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = _HOLD | os.O_NOFOLLOW
_ALL = 0o700


def remove_tree(path: Path) -> None:
    """Remove `path` and everything below it, however deep, never following a link."""
    try:
        holder = os.open(path.parent, _HOLD)
    except FileNotFoundError:
        return
    try:
        remove_at(holder, path.name)
    finally:
        os.close(holder)


def remove_at(holder: int, name: str) -> None:
    """Remove what a name stands for in an open folder.

    Nested folders are first moved up into the outermost one, so that neither the
    recursion limit nor the number of open files stands in the way.
    """
    if _unlinked(holder, name):
        return
    top = _open(holder, name)
    try:
        pending, token, moved = _empty(top), secrets.token_hex(4), 0
        while pending:
            folder = pending.pop()
            at = _open(top, folder)
            try:
                for nested in _empty(at):
                    moved += 1
                    os.close(_open(at, nested))  # without rights it could not be moved
                    pending.append(f".gone-{token}-{moved}")
                    os.rename(nested, pending[-1], src_dir_fd=at, dst_dir_fd=top)
            finally:
                os.close(at)
            os.rmdir(folder, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=holder)


def empty(folder: Path) -> None:
    """Make the folder, or clear it: making one anew costs more."""
    if os.path.islink(folder):
        folder.unlink()
    folder.mkdir(mode=_ALL, parents=True, exist_ok=True)
    holder = os.open(folder.parent, _HOLD)
    try:
        at = _open(holder, folder.name)
    finally:
        os.close(holder)
    try:
        for name in _empty(at):
            remove_at(at, name)
    finally:
        os.close(at)


def _unlinked(holder: int, name: str) -> bool:
    """Remove a file, or tell that it is a folder."""
    try:
        os.unlink(name, dir_fd=holder)
    except FileNotFoundError:
        return True
    except (IsADirectoryError, PermissionError):  # the second is what some systems say of folders
        if not stat.S_ISDIR(os.lstat(name, dir_fd=holder).st_mode):
            raise
        return False
    return True


def _open(holder: int, name: str) -> int:
    """Open a folder that its owner can change afterwards: an agent may have taken its rights."""
    try:
        at = os.open(name, _FOLDER, dir_fd=holder)
    except PermissionError:
        _open_up(holder, name)
        at = os.open(name, _FOLDER, dir_fd=holder)
    if stat.S_IMODE(os.fstat(at).st_mode) & _ALL != _ALL:
        os.fchmod(at, _ALL)
    return at


def _open_up(holder: int, name: str) -> None:
    if not hasattr(os, "O_PATH"):
        os.chmod(name, _ALL, dir_fd=holder, follow_symlinks=False)
        return
    at = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=holder)
    try:
        os.chmod(f"/proc/self/fd/{at}", _ALL)
    finally:
        os.close(at)


def _empty(folder: int) -> list[str]:
    """Delete the files of one folder and return the names of the folders in it."""
    nested = []
    with os.scandir(folder) as found:
        for item in found:
            if item.is_dir(follow_symlinks=False):
                nested.append(item.name)
            else:
                os.unlink(item.name, dir_fd=folder)
    return nested


def empty_upwards(root: Path, folder: Path) -> None:
    """Remove a folder if it is empty, and those above it that are empty then; never `root`."""
    while folder != root:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
