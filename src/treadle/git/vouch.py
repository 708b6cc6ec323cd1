"""Look at folders that content filters could write while git worked for treadle."""

import os
from pathlib import Path

from treadle.errors import GitError
from treadle.files import remove


def plain(folder: Path) -> None:
    """Refuse a folder in which anything but files and folders lies; the whole folder goes."""
    pending = [os.fspath(folder)]
    while pending:
        with os.scandir(pending.pop()) as found:
            for item in found:
                if item.is_dir(follow_symlinks=False):
                    pending.append(item.path)
                elif not item.is_file(follow_symlinks=False):
                    remove.remove_tree(folder)
                    raise refusal(item.name)


def refusal(what: str) -> GitError:
    """Say that a filter did more than filter."""
    return GitError(
        f"a content filter left {what} among what git made; nothing of it is taken",
        code="filter_trespass",
        fix=["git config --get-regexp ^filter"],
    )
