"""Read the trees of commits, and write a tree with some of its files changed."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from treadle.git import call, scratch
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch

MAX_BYTES = 1 << 20
_MAX_ALL = 64 << 20
_ROW = {width: re.compile(rb"\d+ ([^\0]+)\0.{%d}" % width, re.DOTALL) for width in (20, 32)}


class Leaf(NamedTuple):
    """A file of a tree; its id is the one of its contents."""

    mode: str
    id: str


Listing = Mapping[str, Leaf]


def above(path: str) -> list[str]:
    """Return the folders above a path, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def files(repo: Repo, commit: str, paths: Collection[str] | None = None) -> dict[str, Leaf]:
    """Return every file of a commit or tree, or those of `paths` that are files there."""
    if paths is not None and not paths:
        return {}
    wanted = ["-r"] if paths is None else ["--", *paths]
    args = ["--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit, *wanted]
    found: dict[str, Leaf] = {}
    for line in call.fields(args, repo.place):
        head, _, name = line.partition("\t")
        mode, kind, id_ = head.split()
        if kind != "tree":
            found[name] = Leaf(mode, id_)
    return found


def contents(repo: Repo, leaves: Iterable[Leaf]) -> dict[str, bytes]:
    """Return contents by id; what is no file stays out, and what is over 1 MiB or 64 in all."""
    wanted = list(_fitting(sizes(repo, leaves)))
    return {
        id_: data
        for id_, data in zip(wanted, batch(repo.place, wanted), strict=True)
        if data is not None
    }


def sizes(repo: Repo, leaves: Iterable[Leaf]) -> dict[str, int]:
    """Return how large the files among these are, by id."""
    ids = list(dict.fromkeys(leaf.id for leaf in leaves if leaf.mode.startswith("100")))
    if not ids:
        return {}
    asked = "".join(f"{id_}\n" for id_ in ids).encode("ascii")
    output = call.out(["cat-file", "--batch-check=%(objectsize)"], repo.place, stdin=asked)
    found = zip(ids, output.splitlines(), strict=True)
    return {id_: int(size) for id_, size in found if size.isdigit()}


def names(place: Scratch | Repo, tree: str, folders: Iterable[str]) -> dict[str, list[str]]:
    """Return the names in each of these folders of a tree; the root is the empty string."""
    asked = list(folders)
    rows, found = _ROW[len(tree) // 2], batch(place.place, [f"{tree}:{name}" for name in asked])
    return {
        folder: [os.fsdecode(name) for name in rows.findall(content or b"")]
        for folder, content in zip(asked, found, strict=True)
    }


def read_blob(place: Repo | Scratch, name: str) -> bytes | None:
    """Return a file's content by its id or as `tree:path`; None if there is no such file."""
    done = call.run(["cat-file", "blob", name], place.place)
    return None if done.returncode else done.stdout


def put_file(place: Scratch, tree: str, path: str, content: bytes) -> str:
    """Return the tree with one plain file in it."""
    blob = scratch.out(place, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
    return edited(place, tree, {path: Leaf("100644", blob)})


def edited(place: Scratch, tree: str, changes: Mapping[str, Leaf | None]) -> str:
    """Return the tree with these files in it, and without those that are None."""
    nothing = Leaf("0", place.repo.null_id)
    # What goes comes first: it may stand where a folder comes to be.
    rows = sorted(changes.items(), key=lambda row: row[1] is not None)
    lines = [f"{(leaf or nothing).mode} {(leaf or nothing).id}\t{path}\0" for path, leaf in rows]
    scratch.out(place, "read-tree", tree)
    scratch.out(place, "update-index", "-z", "--index-info", stdin=os.fsencode("".join(lines)))
    return scratch.out(place, "write-tree").decode("ascii").strip()


def batch(place: Mapping[str, str], asked: list[str]) -> Iterator[bytes | None]:
    """Yield the content of each object by its id or name; None for one that is not there."""
    if not asked:
        return
    lines = os.fsencode("".join(f"{name}\n" for name in asked))
    output = call.out(["cat-file", "--batch"], place, stdin=lines)
    at = 0
    for _ in asked:
        end = output.index(b"\n", at)
        header, at = output[at:end], end + 1
        if header.endswith(b" missing"):
            yield None
            continue
        size = int(header.split()[2])
        yield output[at : at + size]
        at += size + 1


def _fitting(found: Mapping[str, int]) -> Iterator[str]:
    """Yield the files that may be read, as long as there is room."""
    left = _MAX_ALL
    for id_, size in found.items():
        if size <= min(MAX_BYTES, left):
            left -= size
            yield id_
