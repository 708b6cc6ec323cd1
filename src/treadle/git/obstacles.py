"""Find what of the user's own stands where a branch's new files would go."""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from treadle.git import call

_STATUS = (
    *("--no-optional-locks", "status", "--porcelain", "-z", "-uall", "--no-renames"),
    "--ignore-submodules=all",
)


class Obstacles(NamedTuple):
    """Files that differ from the commit or are unknown to git, and would be overwritten."""

    staged: tuple[str, ...] = ()
    unstaged: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class Touched(NamedTuple):
    """The paths on which two commits differ."""

    all: frozenset[str]
    added: frozenset[str]


def find(root: Path, place: Mapping[str, str], old: str, new: str) -> Obstacles:
    """Return what stands in the way of the checkout at `root` going from `old` to `new`."""
    touched = changed(place, old, new)
    folders = {folder for path in touched.all for folder in _above(path)}
    entries = _status(place)
    near = {path for path in entries if _meets(path, touched.all, folders)}
    staged = {path for path in near if entries[path][0] not in " ?"}
    if staged:
        staged &= _differing(place, new)
    unstaged = {path for path in near if entries[path][1] not in " ?"}
    unknown = {path for path in near if entries[path] == "??"}
    unknown |= {
        path
        for path in touched.added
        if path not in entries and touched.all.isdisjoint(_above(path)) and _is_taken(root, path)
    }
    return Obstacles(
        tuple(sorted(staged)), tuple(sorted(unstaged - staged)), tuple(sorted(unknown))
    )


def changed(place: Mapping[str, str], old: str, new: str) -> Touched:
    """Return the paths on which two commits or trees differ."""
    args = ["diff-tree", "-r", "-z", "--name-status", "--no-renames", old, new]
    fields = os.fsdecode(call.out(args, place)).split("\0")
    pairs = list(zip(fields[1::2], fields[0::2], strict=False))
    return Touched(
        frozenset(path for path, _ in pairs), frozenset(path for path, how in pairs if how == "A")
    )


def _status(place: Mapping[str, str]) -> dict[str, str]:
    listing = os.fsdecode(call.out(_STATUS, place))
    return {entry[3:]: entry[:2] for entry in listing.split("\0") if entry}


def _meets(path: str, touched: frozenset[str], folders: set[str]) -> bool:
    """Tell whether a file is touched, or would have to become a folder, or the reverse."""
    return path in touched or path in folders or not touched.isdisjoint(_above(path))


def _above(path: str) -> list[str]:
    return [str(parent) for parent in PurePosixPath(path).parents][:-1]


def _differing(place: Mapping[str, str], commit: str) -> set[str]:
    """Return what is staged unlike in `commit`; git lets the same content stay."""
    args = ["diff-index", "--cached", "-z", "--name-only", "--no-renames", commit]
    return {path for path in os.fsdecode(call.out(args, place)).split("\0") if path}


def _is_taken(root: Path, path: str) -> bool:
    """Tell whether a new file's name is taken, as only ignored files can do unnoticed."""
    if os.path.lexists(root / path):
        return not (root / path).is_dir() or any((root / path).iterdir())
    return any((root / name).is_symlink() or (root / name).is_file() for name in _above(path))
