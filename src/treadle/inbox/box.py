"""The inbox on disk: list it, read from it without being led astray, move files on."""

import os
import re
import stat
from pathlib import Path

from treadle.errors import FormatError
from treadle.files import atomic, remove, sync, walk
from treadle.layout import Layout
from treadle.text import line

MAX_BYTES = 1 << 20
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_MAX_NAME = 150


def names(layout: Layout) -> list[str]:
    """Return the names that may be messages, in order; what is being written is not there yet."""
    return sorted(filter(is_candidate, walk.names(layout.inbox)))


def is_candidate(name: str) -> bool:
    """Tell whether a name in the inbox is one of a message."""
    return name.endswith(".md") and not name.startswith(".")


def read(path: Path | str) -> bytes:
    """Return a message's bytes; FormatError unless it is a plain, small file of UTF-8 text."""
    state = os.lstat(path)
    if not stat.S_ISREG(state.st_mode):
        raise _odd(path, "is not a plain file")
    if state.st_nlink > 1:
        raise _odd(path, "is a hard link")
    if state.st_size > MAX_BYTES:
        raise _odd(path, f"is larger than {MAX_BYTES >> 20} MiB")
    data = walk.read(path, max_bytes=MAX_BYTES)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _odd(path, f"is not UTF-8 text (byte {error.start})") from error
    return data


def _odd(path: Path | str, what: str) -> FormatError:
    return FormatError(f"{show(Path(path).name)} {what}", code="message_unreadable")


def replace(path: Path | str, old: bytes, new: bytes) -> None:
    """Write a message back; one that is as it should be is not touched."""
    if new != old:
        atomic.write(Path(path), new)


def put(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Put a new message down under a name that must be free: whole, or not there.

    One that can be made again need not be `lasting`: a power cut may take its name.
    """
    folder = path.parent
    staged = f"{folder}/.{path.name}.tmp"
    try:
        atomic.create(staged, data, durable=True)
    except (FileExistsError, FileNotFoundError):  # left by a kill, or the first of all
        remove.remove_tree(Path(staged))
        folder.mkdir(parents=True, exist_ok=True)
        atomic.create(staged, data, durable=True)
    atomic.rename_new(staged, path)
    if lasting:
        sync.sync(folder)


def rename(path: Path, name: str) -> Path:
    """Give a message its own name; FileExistsError if another file has it."""
    if path.name == name:
        return path
    target = path.with_name(name)
    atomic.rename_new(path, target)
    return target


def move(path: Path, folder: Path) -> Path:
    """Move a file, whatever it is, under a safe name that nothing there has."""
    base = safe_name(path.name)
    for number in range(1, 1_000_000):
        target = folder / (base if number == 1 else _numbered(base, number))
        try:
            atomic.rename_new(path, target)
        except FileExistsError:
            continue
        except FileNotFoundError:
            if folder.is_dir():
                raise
            folder.mkdir(parents=True)
            return move(path, folder)
        return target
    raise FileExistsError(path)


def settle(layout: Layout) -> None:
    """Make durable what a pass moved and listed; until then the store tells what is done.

    Where a file went comes before where it was: a power cut between them may show it twice.
    """
    gone_to = (layout.inbox_done, layout.inbox_dead, layout.specs, layout.tracker)
    for path in (*gone_to, layout.inbox):
        if path.exists():
            sync.sync(path.resolve())


def safe_name(name: str) -> str:
    """Return a name that is nothing but a name."""
    clean = _UNSAFE.sub("_", os.fsencode(name).decode(errors="replace")).lstrip("._-")
    stem = clean.removesuffix(".md")[:_MAX_NAME]
    return f"{stem or 'message'}.md"


def show(name: str) -> str:
    """Return a name as it may be shown: what is no plain text is escaped."""
    return line(name)


def _numbered(name: str, number: int) -> str:
    return f"{name.removesuffix('.md')}~{number:03d}.md"
