"""The record of trusted repositories, kept outside all of them: how it is read and replaced."""

import contextlib
import fcntl
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from treadle.errors import ProjectError
from treadle.files import atomic
from treadle.layout import trust_file


class Entry(Struct, frozen=True, kw_only=True):
    """One repository: what `init` wrote into it, and which content of which file was accepted.

    `head` is the commit that was checked out when all of it was accepted for the last time.
    """

    root: str
    identity: str
    since: str
    wrote: dict[str, str] = {}
    trusted: bool = True
    head: str | None = None
    files: dict[str, tuple[str, ...]] = {}

    def is_of(self, root: Path, common_dir: Path) -> bool:
        """Tell whether this very repository is meant."""
        return self.root == str(root.resolve()) and self.identity == identity(common_dir)


class _Book(Struct, frozen=True, kw_only=True):
    version: int = 2
    repositories: tuple[Entry, ...] = ()


def find(env: Mapping[str, str], root: Path, common_dir: Path) -> Entry | None:
    """Return what is on record of a repository, trusted or not."""
    entries = _read(trust_file(env)).repositories
    return next((item for item in entries if item.is_of(root, common_dir)), None)


def has(env: Mapping[str, str], root: Path) -> bool:
    """Tell, without starting git, whether the repository at this root is trusted.

    A run exists only where it is, and inside of one the record cannot be read.
    """
    if env.get("TREADLE_RUN"):
        return True
    try:
        found = find(env, root, _common_dir(root / ".git"))
    except OSError:
        return False
    return found is not None and found.trusted


def identity(git_dir: Path) -> str:
    """Tell this git folder from any other that may come to stand at its path.

    Numbers of deleted files are soon used again, so the age of a file that git writes
    once and never touches is part of it; without that file, the device must do.
    """
    found = git_dir.stat()
    with contextlib.suppress(OSError):
        birth = (git_dir / "description").stat()
        return f"{found.st_ino}-{birth.st_ino}-{birth.st_mtime_ns}"
    return f"{found.st_dev}-{found.st_ino}"


@contextlib.contextmanager
def update(env: Mapping[str, str]) -> Iterator[list[Entry]]:
    """Hand out the record for a change; the folder itself is the lock."""
    path = trust_file(env)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        book = list(_read(path).repositories)
        yield book
        _write(path, book)
    finally:
        os.close(folder)


def _common_dir(dot_git: Path) -> Path:
    """Return the folder that all work trees share, from the two small files that name it."""
    if dot_git.is_dir():
        return dot_git
    named = dot_git.parent / _line(dot_git).removeprefix("gitdir: ")
    shared = named / "commondir"
    return named / _line(shared) if shared.is_file() else named


def _line(path: Path) -> str:
    return os.fsdecode(path.read_bytes()).partition("\n")[0].rstrip("\r")


def _read(path: Path) -> _Book:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Book)
    except FileNotFoundError:
        return _Book()
    except msgspec.DecodeError as error:
        raise ProjectError(
            f"{path} is damaged ({error}); remove it and trust your repositories again",
            code="trust_damaged",
            fix=[f"rm {shlex.quote(str(path))}", "treadle trust"],
        ) from error


def _write(path: Path, book: list[Entry]) -> None:
    if not book:
        path.unlink(missing_ok=True)
        return
    data = msgspec.json.encode(_Book(repositories=tuple(book)))
    atomic.write(path, msgspec.json.format(data, indent=2) + b"\n", mode=0o600)
