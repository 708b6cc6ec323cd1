"""Hold what belongs to the user against what it was before a command."""

import contextlib
import os
from pathlib import Path

from tests.conftest import git

OWN = {".git", ".treadle"}


@contextlib.contextmanager
def untouched(root: Path):
    """Check that uncommitted, staged, stashed and ignored files come out byte for byte the same.

    What is committed may change: that is what landing is for.
    """
    before = belongings(root)
    yield
    after = belongings(root)
    assert after == before
    git(root, "fsck", "--strict", "--no-dangling")


def belongings(root: Path) -> dict[str, object]:
    """Return everything in a checkout that is not simply as committed."""
    listing = git(
        root, "status", "--porcelain", "-z", "-uall", "--ignored=traditional", "--no-renames"
    )
    names = [entry[3:] for entry in listing.split("\0") if entry]
    found: dict[str, object] = {
        f"file {name}": contents(root / name)
        for name in names
        if Path(name).parts[0] not in OWN or name == ".treadle/config.toml"
    }
    staged = git(root, "diff-index", "--cached", "--raw", "--no-renames", "--no-abbrev", "HEAD")
    for line in staged.splitlines():
        mode, blob, path = line.split()[1], line.split()[3], line.partition("\t")[2]
        found[f"staged {path}"] = (mode, blob)
    found["stash"] = git(root, "stash", "list", "--format=%H")
    return found


def contents(path: Path) -> object:
    if path.is_symlink():
        return os.readlink(path)
    if path.is_dir():
        inner = sorted(item for item in path.rglob("*") if item.is_file())
        return {str(item.relative_to(path)): item.read_bytes() for item in inner}
    return (path.read_bytes(), path.stat().st_mode) if path.exists() else None
