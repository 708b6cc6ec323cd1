"""Copy the ignored files that a project wants in every workspace."""

import os
import shutil
from pathlib import Path

from treadle.files import walk
from treadle.git import call, trees
from treadle.git.repo import Repo

NAME = ".worktreeinclude"
_IGNORED = ("ls-files", "-z", "--others", "--ignored")


def copy(repo: Repo, target: Path) -> tuple[str, ...]:
    """Copy plain files that are ignored by git and named in `.worktreeinclude`; return them.

    The file has the form of a .gitignore. Links are not followed and files that are there
    already stay.
    """
    patterns = repo.root / NAME
    if not patterns.is_file():
        return ()
    wanted = _list(repo, f"--exclude-from={patterns}")
    ignored = set(_list(repo, "--exclude-standard"))
    return tuple(name for name in wanted if name in ignored and _copy(repo.root, target, name))


def _list(repo: Repo, rule: str) -> list[str]:
    listing = call.out([*_IGNORED, rule], repo.place)
    return [os.fsdecode(name) for name in listing.split(b"\0") if name]


def _copy(root: Path, target: Path, name: str) -> bool:
    source, copied = root / name, target / name
    if source.is_symlink() or not source.is_file() or os.path.lexists(copied):
        return False
    above = [target / folder for folder in trees.above(name)]
    if any(os.path.lexists(path) and not walk.is_folder(path) for path in above):
        return False  # the commit has a file or a link where the user has a folder
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, copied, follow_symlinks=False)
    return True
