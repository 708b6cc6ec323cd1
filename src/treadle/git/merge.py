"""Merge trees in a scratch place: no checkout, no index, no trace if it does not work out."""

import os
from datetime import UTC, datetime
from typing import NamedTuple

from treadle.git import call, commit, config, objects, scratch
from treadle.git.scratch import Scratch

_MERGE = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
_NEVER = datetime.fromtimestamp(0, UTC)


class Merged(NamedTuple):
    """The tree that holds both sides; its objects are still in the scratch place."""

    tree: str


class Conflict(NamedTuple):
    """The files on which the sides disagree."""

    paths: tuple[str, ...]


def three_way(place: Scratch, base: str, ours: str, theirs: str) -> Merged | Conflict:
    """Bring what happened between the trees `base` and `theirs` into the tree `ours`.

    Git 2.38 finds the base of a merge only through history, so the trees get commits that say
    just this; the histories they really have, cut off or rewritten, do not matter.
    """
    root = _point(place, base)
    sides = [_point(place, tree, root) for tree in (ours, theirs)]
    try:
        return commits(place, *sides)
    finally:
        for name in (root, *sides):
            (place.store / name[:2] / name[2:]).unlink(missing_ok=True)


def commits(place: Scratch, ours: str, theirs: str) -> Merged | Conflict:
    """Merge two commits from where their histories part."""
    args = (*_MERGE, ours, theirs)
    settings = (scratch.NO_SYNC, *config.plain_merges(place.repo))
    done = call.run(args, place.place, config=settings)
    if done.returncode not in (0, 1) or not done.stdout:  # 1 also says that a name is unknown
        raise call.failure(args, done)
    tree, *names = os.fsdecode(done.stdout).split("\0")
    if done.returncode == 0:
        return Merged(tree)
    return Conflict(tuple(dict.fromkeys(name for name in names if name)))


def _point(place: Scratch, tree: str, *parents: str) -> str:
    content = commit.encode(tree, list(parents), "", _NEVER, commit.FALLBACK)
    return objects.write(place.store, "commit", content, place.repo.object_format)
