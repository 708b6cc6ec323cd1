"""Count what lies between two commits, for people."""

from treadle.git import call
from treadle.git.repo import Repo

_STAT = ("diff-tree", "--stat=100", "--stat-count=100", "-M", "-r", "--no-ext-diff", "--no-color")

_PATCH = ("diff-tree", "-p", "-M", "-r", "--no-ext-diff", "--no-textconv", "--no-color")


def patch(repo: Repo, old: str, new: str) -> str:
    """Return the changes line by line."""
    return call.out([*_PATCH, old, new], repo.place).decode(errors="replace")


def between(repo: Repo, old: str, new: str) -> str:
    """Return a line for each changed file, and a sum."""
    text = call.out([*_STAT, old, new], repo.place).decode(errors="replace")
    return text.rstrip("\n")
