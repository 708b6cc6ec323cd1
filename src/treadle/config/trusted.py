"""The record of trusted repositories, kept outside all of them: how it is read and replaced."""

import contextlib
import fcntl
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from treadle.errors import ProjectError
from treadle.files import atomic
from treadle.layout import trust_file


class TrustRecord(NamedTuple):
    """One repository: what `init` wrote into it, and which content of which file was accepted.

    `head` is the commit that was checked out when all of it was accepted for the last time.
    """

    root: str
    identity: str
    since: str
    wrote: Mapping[str, str] = {}
    trusted: bool = True
    head: str | None = None
    files: Mapping[str, tuple[str, ...]] = {}

    def is_of(self, root: Path, common_dir: Path) -> bool:
        """Tell whether this very repository is meant."""
        return self.root == str(root.resolve()) and self.identity == identity(common_dir)


def find(env: Mapping[str, str], root: Path, common_dir: Path) -> TrustRecord | None:
    """Return what is on record of a repository, trusted or not."""
    return next((item for item in _read(trust_file(env)) if item.is_of(root, common_dir)), None)


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
def update(env: Mapping[str, str]) -> Iterator[list[TrustRecord]]:
    """Hand out the record for a change; the folder itself is the lock."""
    path = trust_file(env)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        book = _read(path)
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


def _read(path: Path) -> list[TrustRecord]:
    try:
        return [_entry(**item) for item in json.loads(path.read_bytes())["repositories"]]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ProjectError(
            f"{path} is damaged ({error}); remove it and trust your repositories again",
            code="trust_damaged",
            fix=[f"rm {shlex.quote(str(path))}", "treadle trust"],
        ) from error


def _entry(*, files: Mapping[str, list[str]] | None = None, **rest: Any) -> TrustRecord:
    known = {key: value for key, value in rest.items() if key in TrustRecord._fields}
    return TrustRecord(**known, files={name: tuple(marks) for name, marks in (files or {}).items()})


def _write(path: Path, book: list[TrustRecord]) -> None:
    if not book:
        path.unlink(missing_ok=True)
        return
    document = {"version": 2, "repositories": [entry._asdict() for entry in book]}
    atomic.write(path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)
