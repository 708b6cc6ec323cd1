"""Read what a commit holds: its files by name, and the contents of small ones."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from treadle.git import call
from treadle.git.repo import Repo

MAX_BYTES = 1 << 20
_MAX_ALL = 64 << 20
_BLOB = b"blob"


class Leaf(NamedTuple):
    """A file of a commit; its id is the one of its contents."""

    mode: str
    id: str
    size: int


Listing = Mapping[str, Leaf]


def files(repo: Repo, commit: str) -> dict[str, Leaf]:
    """Return every file of a commit or a tree."""
    output = call.out(["ls-tree", "-r", "-l", "-z", "--full-tree", commit], repo.place)
    found: dict[str, Leaf] = {}
    for line in output.split(b"\0"):
        fields, _, name = line.partition(b"\t")
        if not name:
            continue
        mode, kind, id_, size = fields.split()
        leaf = Leaf(mode.decode(), id_.decode(), int(size) if kind == _BLOB else 0)
        found[os.fsdecode(name)] = leaf
    return found


def contents(repo: Repo, leaves: Iterable[Leaf]) -> dict[str, bytes]:
    """Return contents by id; what is no file stays out, and what is over 1 MiB or 64 in all."""
    wanted = list(_fitting(leaves))
    if not wanted:
        return {}
    lines = "".join(f"{id_}\n" for id_ in wanted).encode()
    output = call.out(["cat-file", "--batch"], repo.place, stdin=lines)
    found: dict[str, bytes] = {}
    position = 0
    for id_ in wanted:
        end = output.index(b"\n", position)
        size = int(output[position:end].split()[2])
        found[id_] = output[end + 1 : end + 1 + size]
        position = end + 1 + size + 1
    return found


def patch(repo: Repo, base: str, commit: str, paths: Iterable[str]) -> bytes:
    """Return the difference of two commits in these files, for people."""
    options = "diff-tree -r -p --no-renames --full-index --no-ext-diff --no-textconv --no-color"
    place = {**repo.place, "GIT_LITERAL_PATHSPECS": "1"}
    return call.out([*options.split(), base, commit, "--", *paths], place)


def _fitting(leaves: Iterable[Leaf]) -> Iterator[str]:
    """Yield the files that may be read, each once, as long as there is room."""
    left = _MAX_ALL
    for leaf in dict.fromkeys(leaves):
        if leaf.mode.startswith("100") and leaf.size <= min(MAX_BYTES, left):
            left -= leaf.size
            yield leaf.id
