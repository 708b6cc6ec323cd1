"""Hold what belongs to the user against what it was before a command."""

import contextlib
import os
from pathlib import Path

from tests.builder import git

OWN = {".git", ".treadle"}
_MINE = ("my-staged.txt", "my-notes.txt", "my-ignored.txt")


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


@contextlib.contextmanager
def lived_in(root: Path):
    """Let a checkout have uncommitted, staged, stashed, unknown and ignored files for a while."""
    exclude, readme = (
        Path(git(root, "rev-parse", "--git-path", "info/exclude").strip()),
        "README.md",
    )
    exclude = root / exclude
    rules = exclude.read_bytes() if exclude.exists() else b""
    tracked = (root / readme).read_bytes()
    exclude.write_bytes(rules + b"\nmy-ignored.txt\n")
    for name in (*_MINE, readme):
        (root / name).write_text(f"{name} is mine\n")
    # A lock or an unfinished merge may keep the user from staging and stashing.
    quiet = ("-c", "core.hooksPath=/dev/null")
    stash = git(root, *quiet, "stash", "create", check=False).strip()
    has_stash = stash.isalnum()
    if has_stash:
        git(root, *quiet, "stash", "store", "-q", stash)
    blob = git(root, "hash-object", "-w", _MINE[0]).strip()
    entry = f"100644,{blob},{_MINE[0]}"
    git(root, *quiet, "update-index", "--add", "--cacheinfo", entry, check=False)
    try:
        yield
    finally:
        git(root, *quiet, "update-index", "--force-remove", _MINE[0], check=False)
        if has_stash:
            git(root, *quiet, "stash", "drop", "-q")
        for name in _MINE:
            (root / name).unlink()
        (root / readme).write_bytes(tracked)
        exclude.write_bytes(rules)


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
