"""Keep on record which repositories are trusted, and which content of which of their files."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.config import damaged, identity, trusted_roots
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


def find_trust(env: Mapping[str, str], root: Path, common_dir: Path) -> TrustRecord | None:
    """Return what is on record of a repository, trusted or not."""
    found = _read_trust(env).get(str(root.resolve()))
    return found if found and found.identity == identity(common_dir) else None


def known_projects(env: Mapping[str, str]) -> list[Path]:
    """Return where the user has set projects up."""
    return [Path(root) for root in trusted_roots(env)]


@contextlib.contextmanager
def trust_records(env: Mapping[str, str]) -> Iterator[dict[str, TrustRecord]]:
    """Hand out the records by root for a change; the folder itself is the lock."""
    path = trust_file(env)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        book = _read_trust(env)
        yield book
        _write_trust(path, book)
    finally:
        os.close(folder)


def _read_trust(env: Mapping[str, str]) -> dict[str, TrustRecord]:
    found = trusted_roots(env)
    try:
        marks = {root: item.get("files", {}).items() for root, item in found.items()}
        files = {root: {name: tuple(it) for name, it in said} for root, said in marks.items()}
        return {root: TrustRecord(**item | {"files": files[root]}) for root, item in found.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise damaged(trust_file(env), error) from error


def _write_trust(path: Path, book: Mapping[str, TrustRecord]) -> None:
    if not book:
        path.unlink(missing_ok=True)
        return
    document = {"version": 2, "repositories": [entry._asdict() for entry in book.values()]}
    atomic.write(path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)
