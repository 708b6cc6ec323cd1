"""Find what of the user's stands in the way of a move, and take up one that was cut off."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.git import call, confined, refs, scratch, trees, workspace
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch

_ADD = ("update-index", "--add", "--replace", "-z", "--stdin")


class Obstacles(NamedTuple):
    """Files that differ from the commit or are unknown to git, and would be overwritten."""

    staged: tuple[str, ...] = ()
    unstaged: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def find(root: Path, place: Mapping[str, str], old: str, new: str) -> Obstacles:
    """Return what stands in the way of the checkout at `root` going from `old` to `new`."""
    confined.require_readable(root)
    changes = trees.changed_files(place, old, new)
    touched = frozenset(change.path for change in changes)
    added = {change.path for change in changes if not change.old}
    folders = {folder for path in touched for folder in trees.above(path)}
    status = call.fields([*call.STATUS, "--ignore-submodules=all"], place)
    # One letter for the index, one for the file.
    near = [(*line[:2], line[3:]) for line in status if _meets(line[3:], touched, folders)]
    staged = {path for index, _, path in near if index not in " ?"}
    if staged:
        staged &= differing(place, new)
    unstaged = {path for _, file, path in near if file not in " ?"} - staged
    # A path can be both: staged as deleted, and there as a file that git does not know.
    unknown = {path for _, file, path in near if file == "?"} - staged
    known = {path for _, _, path in near}
    unknown |= {
        path
        for path in added - known
        if touched.isdisjoint(trees.above(path)) and _is_taken(root, path, touched | known)
    }
    return Obstacles(tuple(sorted(staged)), tuple(sorted(unstaged)), tuple(sorted(unknown)))


def differing(place: Mapping[str, str], commit: str) -> set[str]:
    """Return what is staged unlike in `commit`; git lets the same content stay."""
    args = ["diff-index", "--cached", "-z", "--name-only", "--no-renames", commit]
    return set(call.fields(args, place))


def stage_written(repo: Repo, folder: Path, name: str, old: str, new: str) -> None:
    """Let git know what an interrupted move of the branch `name` has already written.

    Nothing of the user's lay there when the move began. A file that is as in `new` is staged,
    so that git finds it right; the beginning of such a file is removed and comes again whole.
    """
    refs.require_unlocked(repo, name)
    touched = [change.path for change in trees.changed_files(repo.place, old, new)]
    files = [(path, repo.root / path) for path in touched]
    written = [path for path, file in files if file.is_symlink() or file.is_file()]
    if not written:
        return
    place = scratch.make(repo, folder)
    try:
        differing = _unlike(place, written, new)
        same = [path for path in written if path not in differing]
        for path in differing.intersection(written):
            _drop_beginning(repo, path, new)
    finally:
        scratch.drop(place)
    if same:
        call.out(_ADD, repo.place, stdin=_lines(same))


def _meets(path: str, touched: frozenset[str], folders: set[str]) -> bool:
    """Tell whether a file is touched, or would have to become a folder, or the reverse."""
    return path in touched or path in folders or not touched.isdisjoint(trees.above(path))


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


def _unlike(place: Scratch, paths: list[str], commit: str) -> set[str]:
    """Return where the files, put into a copy of the user's index, are not as in `commit`."""
    workspace.copy_index(place.repo.git_dir / "index", place.index)
    scratch.out(place, *_ADD, stdin=_lines(paths))
    return differing(place.place, commit)


def _lines(paths: list[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _drop_beginning(repo: Repo, path: str, commit: str) -> None:
    file = repo.root / path
    done = call.run(["cat-file", "--filters", f"{commit}:{path}"], repo.place)
    if done.returncode or file.is_symlink():
        return
    data = file.read_bytes()
    if len(data) < len(done.stdout) and done.stdout.startswith(data):
        file.unlink()
