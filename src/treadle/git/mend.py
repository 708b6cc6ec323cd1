"""Take up a checkout that was cut off while its files were being written."""

import os
from pathlib import Path

from treadle.git import call, checkout, forward, obstacles, scratch
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch

_ADD = ("update-index", "--add", "--replace", "-z", "--stdin")


def adopt(repo: Repo, folder: Path, name: str, old: str, new: str) -> None:
    """Let git know what an interrupted move of the branch `name` has already written.

    Nothing of the user's lay there when the move began. A file that is as in `new` is staged,
    so that git finds it right; the beginning of such a file is removed and comes again whole.
    """
    forward.require_unlocked(repo, name)
    touched = obstacles.changed(repo.place, old, new).all
    written = sorted(path for path in touched if _is_file(repo.root / path))
    if not written:
        return
    place = scratch.make(repo, folder)
    try:
        differing = _differing(place, written, new)
        same = [path for path in written if path not in differing]
        for path in differing.intersection(written):
            _drop_beginning(repo, path, new)
    finally:
        scratch.drop(place)
    if same:
        call.out(_ADD, repo.place, stdin=_lines(same))


def _differing(place: Scratch, paths: list[str], commit: str) -> set[str]:
    """Return where the files, put into a copy of the user's index, are not as in `commit`."""
    checkout.copy_index(place.repo.git_dir / "index", place.index)
    scratch.out(place, *_ADD, stdin=_lines(paths))
    return obstacles.differing(place.place, commit)


def _drop_beginning(repo: Repo, path: str, commit: str) -> None:
    file = repo.root / path
    done = call.run(["cat-file", "--filters", f"{commit}:{path}"], repo.place)
    if done.returncode or file.is_symlink():
        return
    data = file.read_bytes()
    if len(data) < len(done.stdout) and done.stdout.startswith(data):
        file.unlink()


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _lines(paths: list[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)
