"""Ask how commits follow each other."""

from treadle.git import call
from treadle.git.repo import Repo


def contains(repo: Repo, commit: str, other: str) -> bool:
    """Tell whether `other` is `commit` or lies in its history."""
    if commit == other:
        return True
    args = ["merge-base", "--is-ancestor", other, commit]
    done = call.run(args, repo.place)
    if done.returncode not in (0, 1):
        raise call.failure(args, done)
    return done.returncode == 0
