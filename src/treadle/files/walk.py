"""Read a folder that a stranger filled, without being led astray."""

import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from treadle.errors import FormatError

MAX_ENTRIES = 10_000
MAX_DEPTH = 64
MAX_BYTES = 1 << 30
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Entry(NamedTuple):
    """A regular file or a folder below the walked one."""

    path: str
    is_folder: bool
    size: int


def walk(folder: Path, *, max_entries: int = MAX_ENTRIES, hard_links: bool = False) -> list[Entry]:
    """List everything below `folder`; FormatError on links, devices, FIFOs, hard links, bombs.

    Installers make files of packages `hard_links`; what is only read may have other names.
    """
    entries: list[Entry] = []
    try:
        at = os.open(folder, _FOLDER)
    except OSError as error:
        raise FormatError(f"{folder.name} is gone or no longer a folder") from error
    for entry in _scan(at, "", 1, hard_links):
        entries.append(entry)
        if len(entries) > max_entries:
            raise FormatError(f"more than {max_entries} files in {folder.name}")
    if sum(entry.size for entry in entries) > MAX_BYTES:
        raise FormatError(f"more than {MAX_BYTES >> 20} MiB in {folder.name}")
    return sorted(entries)


def _scan(at: int, prefix: str, depth: int, hard_links: bool) -> Iterator[Entry]:
    """List an open folder and what is below it; a name that turns into a link leads nowhere."""
    try:
        if depth > MAX_DEPTH:
            raise FormatError(f"folders nested deeper than {MAX_DEPTH}: {prefix[:80]!r}…")
        with os.scandir(at) as found:
            for item in found:
                entry = _entry(item, prefix + item.name, hard_links)
                yield entry
                if entry.is_folder:
                    inside, below = _inside(item, at, entry.path), f"{entry.path}/"
                    yield from _scan(inside, below, depth + 1, hard_links)
    finally:
        os.close(at)


def _inside(item: os.DirEntry[str], at: int, path: str) -> int:
    try:
        return os.open(item.name, _FOLDER, dir_fd=at)
    except OSError as error:
        raise FormatError(f"{path!r} cannot be listed: {error.strerror}") from error


def _entry(item: os.DirEntry[str], path: str, hard_links: bool) -> Entry:
    state = item.stat(follow_symlinks=False)
    if stat.S_ISDIR(state.st_mode):
        return Entry(_text(path), True, 0)
    if not stat.S_ISREG(state.st_mode):
        raise FormatError(f"{path!r} is a {_kind(state.st_mode)}; only plain files may be left")
    if state.st_nlink > 1 and not hard_links:
        raise FormatError(f"{path!r} is a hard link; only plain files may be left")
    return Entry(_text(path), False, state.st_size)


def _text(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise FormatError(f"{path!r}: file names must be UTF-8") from error
    return path


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "symbolic link"
    if stat.S_ISFIFO(mode):
        return "FIFO"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def is_folder(path: Path | str) -> bool:
    """Tell whether this is a folder itself, not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def names(folder: Path | str) -> list[str]:
    """Return the names in a folder; a missing one has none."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def plain_file(path: Path | str) -> BufferedReader:
    """Open a file for reading; FormatError if it is missing or anything but a plain file."""
    try:
        descriptor = os.open(path, _PLAIN)
    except FileNotFoundError as error:
        raise FormatError(f"{os.path.basename(path)} is missing") from error
    except OSError as error:
        raise FormatError(f"{os.path.basename(path)} cannot be read: {error.strerror}") from error
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")
    os.close(descriptor)
    raise FormatError(f"{os.path.basename(path)} is not a plain file")


def read(path: Path | str, *, max_bytes: int) -> bytes:
    """Return a plain file's bytes; FormatError if it is anything else or too big."""
    with plain_file(path) as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise FormatError(f"{os.path.basename(path)} is larger than {max_bytes} bytes")
    return data


def tail(path: Path | str, max_bytes: int) -> str:
    """Return the end of a log as text; nothing if there is no such file."""
    try:
        with plain_file(path) as stream:
            stream.seek(max(os.fstat(stream.fileno()).st_size - max_bytes, 0))
            return stream.read(max_bytes).decode(errors="replace")
    except FormatError:
        return ""
