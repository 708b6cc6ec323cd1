"""Pack tar archives, and unpack one that a stranger may have made: plain files, within bounds.

Python's own reader knows links, devices, sparse files and several ways to say one thing, and what
its `extractall` holds back depends on the version. What treadle packs needs none of that.
"""

import contextlib
import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from treadle.errors import FormatError
from treadle.files import beneath, walk

_BLOCK = 512
_CHUNK = 1 << 20
_MAX_EXTENDED = 64 << 10
_MAX_NAME = 4096
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Member(NamedTuple):
    """One file of an archive; its bytes can be read until the next one is asked for."""

    name: str
    chunks: Iterator[bytes]


def members(stream: io.BufferedIOBase, *, max_files: int, max_bytes: int) -> Iterator[Member]:
    """Yield the files of an uncompressed archive, or raise FormatError at the first oddity."""
    count, left = 0, max_bytes
    for header in _headers(stream):
        count, left = count + 1, left - header.size
        if count > max_files:
            raise _odd(f"it has more than {max_files} files")
        if left < 0:
            raise _odd(f"it holds more than {max_bytes >> 20} MiB")
        chunks = _chunks(stream, header.size)
        yield Member(header.name, chunks)
        for _ in chunks:
            pass
        _exactly(stream, -header.size % _BLOCK)


def add(packed: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file without owner and time, so that the same content is the same archive."""
    item = tarfile.TarInfo(name)
    item.size = len(data)
    packed.addfile(item, io.BytesIO(data))


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Callable[[str, Iterable[bytes]], str]]:
    """Make a folder and hand out what writes a file into it and returns its digest.

    The folder is held open and never left: nothing is replaced and no link is followed, whoever
    else writes there. After an error it is gone.
    """
    target.mkdir(parents=True)
    held = os.open(target, _FOLDER)
    try:
        yield lambda name, chunks: _write(held, name, chunks)
    except BaseException as error:
        beneath.remove_tree(target)
        if isinstance(error, OSError):
            raise _odd(f"{error.strerror or error}: {error.filename!r}") from error
        raise
    finally:
        os.close(held)


def _headers(stream: io.BufferedIOBase) -> Iterator[tarfile.TarInfo]:
    """Yield the headers of plain files, with the long names that extended headers give."""
    long_name = None
    while any(block := _exactly(stream, _BLOCK)):
        header = _header(block)
        if header.type == tarfile.XHDTYPE and long_name is None:
            long_name = _extended(stream, header.size)
        elif header.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
            header.name = long_name or header.name
            yield header
            long_name = None
        else:
            raise _odd(f"{header.name!r} is not a plain file")


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        found = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except UnicodeDecodeError as error:
        raise _odd(f"{error.object!r} is not valid UTF-8") from error
    except (tarfile.HeaderError, ValueError) as error:
        raise _odd("a header is damaged") from error
    if found.size < 0:
        raise _odd("a header is damaged")
    return found


def _extended(stream: io.BufferedIOBase, size: int) -> str:
    """Return the name that an extended header gives to the next file; it may say nothing else."""
    if size > _MAX_EXTENDED:
        raise _odd("a name is too long")
    data = _exactly(stream, size + -size % _BLOCK)[:size]
    length, _, rest = data.partition(b" ")
    if length != str(size).encode() or rest[:5] != b"path=" or rest[-1:] != b"\n":
        raise _odd("an extended header says more than a name")
    try:
        return rest[5:-1].decode()
    except UnicodeDecodeError as error:
        raise _odd(f"{rest[5:-1]!r} is not valid UTF-8") from error


def _chunks(stream: io.BufferedIOBase, size: int) -> Iterator[bytes]:
    while size:
        chunk = _exactly(stream, min(size, _CHUNK))
        size -= len(chunk)
        yield chunk


def _exactly(stream: io.BufferedIOBase, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise _odd("it is cut off")
    return data


def _write(held: int, name: str, chunks: Iterable[bytes]) -> str:
    *above, last = _parts(name)
    digest = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        at = held
        for part in above:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=at)
            at = os.open(part, _FOLDER, dir_fd=at)
            stack.callback(os.close, at)
        with os.fdopen(os.open(last, _NEW, 0o644, dir_fd=at), "wb") as file:
            for chunk in chunks:
                digest.update(chunk)
                file.write(chunk)
    return digest.hexdigest()


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    odd = any(part in ("", ".", "..") or "\0" in part for part in parts)
    if odd or len(name.encode()) > _MAX_NAME or len(parts) > walk.MAX_DEPTH:
        raise _odd(f"{name[:200]!r} is not a valid file name")
    return parts


def _odd(message: str) -> FormatError:
    return FormatError(message, code="archive_damaged")
