"""Read a letter's file without ever waiting, following a link or taking in too much."""

import os
import stat
from pathlib import Path

from treadle.errors import FormatError
from treadle.mail.letter import MAX_BYTES, Letter, parse
from treadle.mail.name import split


def read(path: Path) -> Letter:
    """Read a letter, or raise FormatError that says what is wrong with it."""
    if not path.name.isprintable():  # bytes that are no text are not either
        raise FormatError("its name has signs that cannot be written")
    return parse(text(path), split(path.name))


def text(path: Path, limit: int = MAX_BYTES) -> str:
    """Return a file's text; FormatError unless it is a plain file of moderate size in UTF-8."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FormatError(f"{path.name} is no plain file ({error.strerror})") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise FormatError(f"{path.name} is no plain file")
        if found.st_size > limit:
            raise FormatError(f"{path.name} has {found.st_size} bytes; at most {limit} are read")
        data = b"".join(iter(lambda: os.read(descriptor, 1 << 16), b""))
    finally:
        os.close(descriptor)
    return decode(data[:limit], path.name)


def decode(data: bytes, name: str) -> str:
    """Return bytes as text, or raise FormatError."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{name} is not UTF-8 (byte {error.start})") from error
