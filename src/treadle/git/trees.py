"""Read trees, compare them, and write one with some of its files changed."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from treadle.git import call, scratch
from treadle.git.call import cat_file, objects
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch

LINK, GITLINK = "120000", "160000"
_NOTHING = "000000"
MAX_BYTES = 1 << 20  # of a change that is shown
_MAX_READ, _MAX_ALL = 8 << 20, 64 << 20  # of one file, of all at once
_ROW = {width: re.compile(rb"\d+ ([^\0]+)\0.{%d}" % width, re.DOTALL) for width in (20, 32)}
_DIFF = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color")
_RAW = ("-z", "--raw", "--full-index", "--ignore-submodules=none")
# Renames are looked for so that a moved file costs no more than its two names.
_CANONICAL = ("-p", "--binary", "-M", "-l100")
_SECTION = re.compile(rb"^diff --git ", re.MULTILINE)


class Leaf(NamedTuple):
    """A file of a tree; its id is the one of its contents."""

    mode: str
    id: str


class FileChange(NamedTuple):
    """One path that differs; a side that is not there is None."""

    path: str
    old: Leaf | None
    new: Leaf | None


class Difference(NamedTuple):
    """What lies between two trees; the diff can be applied and does not depend on settings."""

    files: tuple[FileChange, ...]
    sizes: tuple[tuple[str, int], ...]
    diff: bytes


class _Record(NamedTuple):
    """One line of git's raw format; a rename has two paths."""

    old: Leaf | None
    new: Leaf | None
    status: str
    paths: list[str]

    @property
    def changes(self) -> list[FileChange]:
        if self.status != "R":
            return [FileChange(self.paths[-1], self.old, self.new)]
        before, after = self.paths
        return [FileChange(before, self.old, None), FileChange(after, None, self.new)]


Listing = Mapping[str, Leaf]


def above(path: str) -> list[str]:
    """Return the folders above a path, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def files(at: Repo | Scratch, name: str, paths: Collection[str] | None = None) -> dict[str, Leaf]:
    """Return every file of a commit or tree, or those of `paths` that are files there."""
    if paths is not None and not paths:
        return {}
    wanted = ["-r"] if paths is None else ["--", *paths]
    args = ["--literal-pathspecs", "ls-tree", "-z", "--full-tree", name, *wanted]
    found: dict[str, Leaf] = {}
    for line in call.fields(args, at.place):
        head, _, path = line.partition("\t")
        mode, kind, id_ = head.split()
        if kind != "tree":
            found[path] = Leaf(mode, id_)
    return found


def contents(repo: Repo, leaves: Iterable[Leaf]) -> dict[str, bytes]:
    """Return contents by id; what is no file stays out, and what is over 8 MiB or 64 in all."""
    wanted = list(_fitting(sizes(repo, leaves)))
    found = zip(wanted, objects(repo.place, wanted), strict=True)
    return {id_: data for id_, (kind, data) in found if kind}


def sizes(repo: Repo, leaves: Iterable[Leaf]) -> dict[str, int]:
    """Return how large the files among these are, by id."""
    ids = list(dict.fromkeys(leaf.id for leaf in leaves if leaf.mode.startswith("100")))
    output = cat_file("--batch-check=%(objectsize)", repo.place, ids) if ids else b""
    found = zip(ids, output.splitlines(), strict=True)
    return {id_: int(size) for id_, size in found if size.isdigit()}


def names(place: Scratch | Repo, tree: str, folders: Iterable[str]) -> dict[str, list[str]]:
    """Return the names in each of these folders of a tree; the root is the empty string."""
    asked = list(folders)
    rows, found = _ROW[len(tree) // 2], objects(place.place, [f"{tree}:{name}" for name in asked])
    return {
        folder: [os.fsdecode(name) for name in rows.findall(content)]
        for folder, (_, content) in zip(asked, found, strict=True)
    }


def read_blob(place: Repo | Scratch, name: str) -> bytes | None:
    """Return a file's content by its id or as `tree:path`; None if there is no such file."""
    done = call.run(["cat-file", "blob", name], place.place)
    return None if done.returncode else done.stdout


def put_file(place: Scratch, tree: str, path: str, content: bytes, mode: str = "100644") -> str:
    """Return the tree with one file in it."""
    blob = scratch.out(place, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
    return edited(place, tree, {path: Leaf(mode, blob)})


def edited(place: Scratch, tree: str, changes: Mapping[str, Leaf | None]) -> str:
    """Return the tree with these files in it, and without those that are None."""
    nothing = Leaf("0", place.repo.null_id)
    # What goes comes first: it may stand where a folder comes to be.
    rows = sorted(changes.items(), key=lambda row: row[1] is not None)
    lines = [f"{(leaf or nothing).mode} {(leaf or nothing).id}\t{path}\0" for path, leaf in rows]
    scratch.out(place, "read-tree", tree)
    scratch.out(place, "update-index", "-z", "--index-info", stdin=os.fsencode("".join(lines)))
    return scratch.out(place, "write-tree").decode("ascii").strip()


def compare(place: Scratch | Repo, old: str, new: str) -> Difference:
    """Compare two trees; the canonical diff comes with the records, in one call of git."""
    output = call.out([*_DIFF, *_RAW, *_CANONICAL, old, new], place.place)
    records, end = _records(output)
    diff = output[end:]
    return Difference(_changes(records), tuple(_sizes(records, diff)), diff)


def changed_files(place: Mapping[str, str], old: str, new: str) -> tuple[FileChange, ...]:
    """Return the files on which two commits or trees differ, in order."""
    return _changes(_records(call.out([*_DIFF, *_RAW, "--no-renames", old, new], place))[0])


def diff_text(repo: Repo, old: str, new: str, paths: Iterable[str] = ()) -> bytes:
    """Return the changes line by line, in these files or in all, for people."""
    place = {**repo.place, "GIT_LITERAL_PATHSPECS": "1"}
    return call.out([*_DIFF, "-p", "-M", old, new, "--", *paths], place)


def diff_summary(repo: Repo, old: str, new: str) -> str:
    """Return a line for each changed file and a sum, for people."""
    args = [*_DIFF, "--stat=100", "--stat-count=100", "-M", old, new]
    return call.out(args, repo.place).decode(errors="replace").rstrip("\n")


def changed_lines(repo: Repo, old: str, new: str) -> int:
    """Return how many lines were added or removed between two commits; a binary file has none."""
    rows = call.out([*_DIFF, "--numstat", "--no-renames", old, new], repo.place).splitlines()
    counts = [count for row in rows for count in row.split(b"\t")[:2]]
    return sum(int(count) for count in counts if count.isdigit())


def _fitting(found: Mapping[str, int]) -> Iterator[str]:
    """Yield the files that may be read, as long as there is room."""
    left = _MAX_ALL
    for id_, size in found.items():
        if size <= min(_MAX_READ, left):
            left -= size
            yield id_


def _records(output: bytes) -> tuple[list[_Record], int]:
    """Return the raw records and where the diff behind them begins."""
    records, position = [], 0
    while output[position : position + 1] == b":":
        end = output.index(b"\0", position)
        old_mode, new_mode, old_id, new_id, status = output[position + 1 : end].decode().split(" ")
        names = []
        for _ in range(2 if status[0] == "R" else 1):
            start, end = end + 1, output.index(b"\0", end + 1)
            names.append(os.fsdecode(output[start:end]))
        old, new = _leaf(old_mode, old_id), _leaf(new_mode, new_id)
        records.append(_Record(old, new, status[0], names))
        position = end + 1
    return records, position + 1 if records else position


def _leaf(mode: str, id_: str) -> Leaf | None:
    return None if mode == _NOTHING else Leaf(mode, id_)


def _changes(records: list[_Record]) -> tuple[FileChange, ...]:
    found = [change for record in records for change in record.changes]
    return tuple(sorted(found, key=lambda change: change.path))


def _sizes(records: list[_Record], diff: bytes) -> Iterator[tuple[str, int]]:
    """Yield how many bytes of the diff belong to each path."""
    starts = [match.start() for match in _SECTION.finditer(diff)]
    lengths = [end - start for start, end in pairwise([*starts, len(diff)])]
    # A changed type is shown as one section that deletes and one that creates.
    owners = [
        record.paths[-1] for record in records for _ in range(2 if record.status == "T" else 1)
    ]
    if len(owners) != len(lengths):
        yield "", len(diff)
        return
    yield from zip(owners, lengths, strict=True)
