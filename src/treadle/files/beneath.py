"""Read, write and delete below a folder through open descriptors: no name is followed."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from treadle.errors import NotFoundError

_HOLD = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = _HOLD | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
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
        pending, token, moved = _empty(top), os.urandom(4).hex(), 0
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


def empty_upwards(root: Path, folder: Path) -> None:
    """Remove a folder if it is empty, and those above it that are empty then; never `root`."""
    while folder != root:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


@contextlib.contextmanager
def opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open a plain file by its path relative to `folder`; no part of it may be a link or `..`."""
    parts = name.split("/")
    with contextlib.ExitStack() as stack:
        try:
            if not all(parts) or "." in parts or ".." in parts:
                raise ValueError(name)
            at, last = stack.enter_context(_holder(folder, name, make=False))
            found = stack.enter_context(os.fdopen(os.open(last, _FILE, dir_fd=at), "rb"))
            if not stat.S_ISREG(os.fstat(found.fileno()).st_mode):
                raise ValueError(name)
        except (OSError, ValueError) as error:
            raise NotFoundError(f"there is no file {name!r}") from error
        yield found


def take(source: Path | str, folder: Path, name: str) -> None:
    """Move what is treadle's own to a place below `folder`, instead of what is there."""
    with _holder(folder, name) as (at, last):
        remove_at(at, last)
        os.rename(source, last, dst_dir_fd=at)


def write(folder: Path, name: str, data: bytes, *, mode: int = 0o600) -> None:
    """Put a whole file in its place below `folder`; a link or folder in the way is not followed."""
    with replaced(folder, name, mode=mode) as stream:
        stream.write(data)


@contextlib.contextmanager
def replaced(folder: Path, name: str, *, mode: int) -> Iterator[BinaryIO]:
    """Open a new file that takes its place below `folder` once it is written."""
    with _holder(folder, name) as (at, last):
        staged, aside = (f".{last}.{word}-{os.urandom(4).hex()}" for word in ("tmp", "old"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(staged, flags, mode, dir_fd=at), "wb") as stream:
            yield stream
        try:
            os.replace(staged, last, src_dir_fd=at, dst_dir_fd=at)
        except IsADirectoryError:
            os.rename(last, aside, src_dir_fd=at, dst_dir_fd=at)
            os.replace(staged, last, src_dir_fd=at, dst_dir_fd=at)


def remove(folder: Path, name: str) -> None:
    """Take away what lies below `folder` under this name, if it is there."""
    with contextlib.suppress(FileNotFoundError), _holder(folder, name, make=False) as (at, last):
        remove_at(at, last)


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


@contextlib.contextmanager
def _holder(folder: Path, name: str, *, make: bool = True) -> Iterator[tuple[int, str]]:
    """Open the folder that holds a name; `make` it if it is not there or is a link."""
    *parents, last = name.split("/")
    with contextlib.ExitStack() as stack:
        at = _closing(stack, os.open(folder, _HOLD))
        for part in parents:
            at = _closing(stack, _enter(part, at, make))
        yield at, last


def _enter(part: str, at: int, make: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=at)
    except FileNotFoundError:
        if not make:
            raise
    except OSError as error:
        if not make:
            raise FileNotFoundError(part) from error
        os.unlink(part, dir_fd=at)  # a link, or no folder
    os.mkdir(part, 0o700, dir_fd=at)
    return os.open(part, _FOLDER, dir_fd=at)


def _closing(stack: contextlib.ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor
