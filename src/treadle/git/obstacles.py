"""Find what of the user's own stands where a branch's new files would go."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.git import call, guards, special, trees


class Obstacles(NamedTuple):
    """Files that differ from the commit or are unknown to git, and would be overwritten."""

    staged: tuple[str, ...] = ()
    unstaged: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class Touched(NamedTuple):
    """The paths on which two commits differ."""

    all: frozenset[str]
    added: frozenset[str]


class _Entry(NamedTuple):
    """One line of git's status: how a path is in the index, and how as a file."""

    staged: str
    file: str
    path: str


def find(root: Path, place: Mapping[str, str], old: str, new: str) -> Obstacles:
    """Return what stands in the way of the checkout at `root` going from `old` to `new`."""
    special.require_readable(root)
    touched = changed(place, old, new)
    folders = {folder for path in touched.all for folder in trees.above(path)}
    near = [entry for entry in _status(place) if _meets(entry.path, touched.all, folders)]
    staged = {entry.path for entry in near if entry.staged not in " ?"}
    if staged:
        staged &= differing(place, new)
    unstaged = {entry.path for entry in near if entry.file not in " ?"} - staged
    # A path can be both: staged as deleted, and there as a file that git does not know.
    unknown = {entry.path for entry in near if entry.file == "?"} - staged
    known = {entry.path for entry in near}
    unknown |= {
        path
        for path in touched.added - known
        if touched.all.isdisjoint(trees.above(path)) and _is_taken(root, path, touched.all | known)
    }
    return Obstacles(tuple(sorted(staged)), tuple(sorted(unstaged)), tuple(sorted(unknown)))


def changed(place: Mapping[str, str], old: str, new: str) -> Touched:
    """Return the paths on which two commits or trees differ."""
    args = ["diff-tree", "-r", "-z", "--name-status", "--no-renames", old, new]
    fields = os.fsdecode(call.out(args, place)).split("\0")
    pairs = list(zip(fields[1::2], fields[0::2], strict=False))
    return Touched(
        frozenset(path for path, _ in pairs), frozenset(path for path, how in pairs if how == "A")
    )


def _status(place: Mapping[str, str]) -> list[_Entry]:
    listing = os.fsdecode(call.out([*guards.STATUS, "--ignore-submodules=all"], place))
    return [_Entry(line[0], line[1], line[3:]) for line in listing.split("\0") if line]


def _meets(path: str, touched: frozenset[str], folders: set[str]) -> bool:
    """Tell whether a file is touched, or would have to become a folder, or the reverse."""
    return path in touched or path in folders or not touched.isdisjoint(trees.above(path))


def differing(place: Mapping[str, str], commit: str) -> set[str]:
    """Return what is staged unlike in `commit`; git lets the same content stay."""
    args = ["diff-index", "--cached", "-z", "--name-only", "--no-renames", commit]
    return {path for path in os.fsdecode(call.out(args, place)).split("\0") if path}


def _is_taken(root: Path, path: str, seen: frozenset[str]) -> bool:
    """Tell whether a new file's name is taken, as only ignored files can do unnoticed."""
    target = root / path
    if target.is_dir() and not target.is_symlink():
        inner = [item for item in target.rglob("*") if item.is_symlink() or not item.is_dir()]
        return any(str(item.relative_to(root)) not in seen for item in inner)
    if os.path.lexists(target):
        return True
    above = [root / name for name in trees.above(path) if name not in seen]
    return any(parent.is_symlink() or parent.is_file() for parent in above)
