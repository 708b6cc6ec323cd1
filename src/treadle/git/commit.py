"""Write commits and merges, without a checkout."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from treadle.git import call, scratch
from treadle.git import settings as git_settings
from treadle.git.build import Built
from treadle.git.scratch import Scratch
from treadle.git.settings import GitSettings

_UNSAFE = str.maketrans("", "", "<>\n\r\0")
_YES = ("true", "yes", "on", "1")
_UTF8 = "i18n.commitEncoding=UTF-8"  # what treadle writes, whatever the user's editor does
_MERGE_TREE = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
_NEVER = datetime.fromtimestamp(0, UTC)


class Author(NamedTuple):
    """Who is named in a commit."""

    name: str
    email: str


class Merged(NamedTuple):
    """The tree that holds both sides; its objects are still in the scratch place."""

    tree: str


class Conflict(NamedTuple):
    """The files on which the sides disagree."""

    paths: tuple[str, ...]


FALLBACK = Author("treadle", "treadle@localhost")


def identity(config: GitSettings) -> Author:
    """Return the user's identity; `treadle` where none is configured."""
    name = config.get("user.name") or FALLBACK.name
    email = config.get("user.email") or FALLBACK.email
    return Author(name, email)


def commit(built: Built, parent: str, message: str, when: datetime, author: Author) -> str:
    """Commit a built tree, durably, and return the commit's id; no branch moves.

    The object is written here rather than by `git commit-tree`: that saves a process in every
    step and keeps signing, encodings and dates of the user's settings out of the id.
    """
    place = built.scratch
    content = encode(built.tree, [parent], message, when, author)
    name = scratch.write_object(place.store, "commit", content, place.repo.object_format)
    scratch.keep(place)
    return name


def encode(tree: str, parents: list[str], message: str, when: datetime, author: Author) -> bytes:
    """Return a commit object's content."""
    offset = when.strftime("%z") or "+0000"
    person = f"{_clean(author.name)} <{_clean(author.email)}> {int(when.timestamp())} {offset}"
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {person}", f"committer {person}", "", message.replace("\0", "").strip()]
    return "\n".join(lines).encode(errors="replace") + b"\n"


def signs(config: GitSettings) -> bool:
    """Tell whether the user wants commits to be signed."""
    return (config.get("commit.gpgsign") or "").lower() in _YES


def committer(config: GitSettings, env: Mapping[str, str]) -> Author:
    """Return who commits: git's own variables, else the settings, else treadle."""
    known = identity(config)
    return Author(
        env.get("GIT_AUTHOR_NAME") or known.name, env.get("GIT_AUTHOR_EMAIL") or known.email
    )


def commit_tree(
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


def three_way(place: Scratch, base: str, ours: str, theirs: str) -> Merged | Conflict:
    """Bring what happened between the trees `base` and `theirs` into the tree `ours`.

    Git 2.38 finds the base of a merge only through history, so the trees get commits that say
    just this; the histories they really have, cut off or rewritten, do not matter.
    """
    root = _point(place, base)
    sides = [_point(place, tree, root) for tree in (ours, theirs)]
    try:
        return merge_commits(place, *sides)
    finally:
        for name in (root, *sides):
            (place.store / name[:2] / name[2:]).unlink(missing_ok=True)


def merge_commits(place: Scratch, ours: str, theirs: str) -> Merged | Conflict:
    """Merge two commits from where their histories part."""
    args = (*_MERGE_TREE, ours, theirs)
    settings = (scratch.NO_SYNC, *git_settings.plain_merges(place.repo))
    done = call.run(args, place.place, config=settings)
    if done.returncode not in (0, 1) or not done.stdout:  # 1 also says that a name is unknown
        raise call.failure(args, done)
    tree, *names = os.fsdecode(done.stdout).split("\0")
    if done.returncode == 0:
        return Merged(tree)
    return Conflict(tuple(dict.fromkeys(name for name in names if name)))


def _clean(text: str) -> str:
    """Drop what git does not allow in a name, as git does itself."""
    return text.translate(_UNSAFE).strip(" .,:;\"'\\") or FALLBACK.name


def _point(place: Scratch, tree: str, *parents: str) -> str:
    content = encode(tree, list(parents), "", _NEVER, FALLBACK)
    return scratch.write_object(place.store, "commit", content, place.repo.object_format)
