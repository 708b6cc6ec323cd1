"""Make a commit for the user's own branch: signed if the user signs."""

from collections.abc import Mapping
from datetime import datetime

from treadle.git import call, commit, scratch
from treadle.git.commit import Author
from treadle.git.config import Config
from treadle.git.scratch import Scratch

_YES = ("true", "yes", "on", "1")
_UTF8 = "i18n.commitEncoding=UTF-8"  # what treadle writes, whatever the user's editor does


def signs(config: Config) -> bool:
    """Tell whether the user wants commits to be signed."""
    return (config.get("commit.gpgsign") or "").lower() in _YES


def identity(config: Config, env: Mapping[str, str]) -> Author:
    """Return who commits: git's own variables, else the settings, else treadle."""
    known = commit.identity(config)
    return Author(
        env.get("GIT_AUTHOR_NAME") or known.name, env.get("GIT_AUTHOR_EMAIL") or known.email
    )


def write(
    place: Scratch, tree: str, parent: str, message: str, *, when: datetime, who: Author, sign: bool
) -> str:
    """Commit a tree in the scratch place and return the commit's id; no branch moves."""
    args = ["commit-tree", "-p", parent, *(["-S"] if sign else []), tree]
    stamp = f"{int(when.timestamp())} +0000"
    names = {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", who.name), ("EMAIL", who.email), ("DATE", stamp))
    }
    text = message.replace("\0", "").encode(errors="replace")
    settings = (scratch.NO_SYNC, _UTF8)
    done = call.out(args, place.place | names, stdin=text, config=settings)
    return done.decode("ascii").strip()
