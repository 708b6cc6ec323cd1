"""Compare two trees, as records and as text, and keep what differs in a workspace as a patch."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from treadle.git import build, call, scratch, workspace
from treadle.git.checkout import Workspace
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch
from treadle.git.trees import Leaf
from treadle.git.workspace import Change

NONE, LINK, GITLINK = "000000", "120000", "160000"
MAX_FILE_BYTES = 10_000_000
MAX_BYTES = 50_000_000
MAX_FILES = 5_000
_NAMED = 200

_TREES = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color")
_RAW = ("-z", "--raw", "--full-index", "--ignore-submodules=none")
# Renames are looked for so that a moved file costs no more than its two names.
_CANONICAL = ("-p", "--binary", "-M", "-l100")
_INDEX = (
    "diff-index --cached -p --binary --full-index --no-renames"
    " --no-ext-diff --no-textconv --no-color --ignore-submodules=none"
)
_SECTION = re.compile(rb"^diff --git ", re.MULTILINE)


class FileChange(NamedTuple):
    """One path that differs; a missing side has mode 000000."""

    path: str
    old_mode: str
    new_mode: str
    old_id: str = ""
    new_id: str = ""

    @property
    def is_added(self) -> bool:
        """Tell whether the name is new."""
        return self.old_mode == NONE

    @property
    def is_deleted(self) -> bool:
        """Tell whether the name goes."""
        return self.new_mode == NONE

    @property
    def old(self) -> Leaf | None:
        """Return the file as it was."""
        return None if self.is_added else Leaf(self.old_mode, self.old_id)

    @property
    def new(self) -> Leaf | None:
        """Return the file as it is."""
        return None if self.is_deleted else Leaf(self.new_mode, self.new_id)


class Difference(NamedTuple):
    """What lies between two trees; the diff can be applied and does not depend on settings."""

    files: tuple[FileChange, ...]
    sizes: tuple[tuple[str, int], ...]
    diff: bytes


class _Record(NamedTuple):
    """One line of git's raw format; a rename has two paths."""

    old_mode: str
    new_mode: str
    old_id: str
    new_id: str
    status: str
    paths: tuple[str, ...]


def read(place: Scratch | Repo, old: str, new: str) -> Difference:
    """Compare two trees; the canonical diff comes with the records, in one call of git."""
    output = call.out([*_TREES, *_RAW, *_CANONICAL, old, new], place.place)
    records, end = _records(output)
    diff = output[end:]
    files = {change for record in records for change in _changes(record)}
    return Difference(tuple(sorted(files)), tuple(_sizes(records, diff)), diff)


def changed(place: Mapping[str, str], old: str, new: str) -> tuple[FileChange, ...]:
    """Return the files on which two commits or trees differ, in order."""
    output = call.out([*_TREES, *_RAW, "--no-renames", old, new], place)
    return tuple(sorted(change for item in _records(output)[0] for change in _changes(item)))


def text(repo: Repo, old: str, new: str, paths: Iterable[str] = ()) -> bytes:
    """Return the changes line by line, in these files or in all, for people."""
    place = {**repo.place, "GIT_LITERAL_PATHSPECS": "1"}
    return call.out([*_TREES, "-p", "-M", old, new, "--", *paths], place)


def summary(repo: Repo, old: str, new: str) -> str:
    """Return a line for each changed file and a sum, for people."""
    args = [*_TREES, "--stat=100", "--stat-count=100", "-M", old, new]
    return call.out(args, repo.place).decode(errors="replace").rstrip("\n")


def write(
    ws: Workspace, commit: str, target: Path, found: Iterable[Change] | None = None
) -> tuple[Change, ...]:
    """Write the differences to `commit` as a diff git can apply; return what it is about.

    Nothing reaches the repository's object store. What is too big is only named.
    """
    edits = tuple(workspace.changes(ws) if found is None else found)
    taken = _small_ones(ws, edits)
    place = scratch.make(ws.repo, target.with_name(f".{target.name}.scratch"), ws.runner)
    try:
        build.seed(place, commit, ws)
        build.stage(ws, place, taken)
        target.write_bytes(scratch.out(place, *_INDEX.split(), commit))
    finally:
        scratch.drop(place)
    _append(target, [change for change in edits if change not in taken])
    return edits


def _records(output: bytes) -> tuple[list[_Record], int]:
    """Return the raw records and where the diff behind them begins."""
    records, position = [], 0
    while output[position : position + 1] == b":":
        end = output.index(b"\0", position)
        old_mode, new_mode, old_id, new_id, status = output[position + 1 : end].decode().split(" ")
        names = []
        for _ in range(2 if status[0] in "RC" else 1):
            start, end = end + 1, output.index(b"\0", end + 1)
            names.append(os.fsdecode(output[start:end]))
        records.append(_Record(old_mode, new_mode, old_id, new_id, status[0], tuple(names)))
        position = end + 1
    return records, position + 1 if records else position


def _changes(record: _Record) -> list[FileChange]:
    old_mode, new_mode, old_id, new_id, status, paths = record
    if status != "R":
        return [FileChange(paths[-1], old_mode, new_mode, old_id, new_id)]
    old, new = paths
    nothing = "0" * len(old_id)
    return [
        FileChange(old, old_mode, NONE, old_id, nothing),
        FileChange(new, NONE, new_mode, nothing, new_id),
    ]


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


def _small_ones(ws: Workspace, edits: tuple[Change, ...]) -> set[Change]:
    """Choose what a diff for people can hold."""
    taken: set[Change] = set()
    left = MAX_BYTES
    for change in edits:
        size = build.file_size(ws.path / change.path)
        if (
            len(taken) < MAX_FILES
            and size <= min(left, MAX_FILE_BYTES)
            and change.kind not in build.OPAQUE
        ):
            taken.add(change)
            left -= size
    return taken


def _append(target: Path, left_out: list[Change]) -> None:
    lines = [f"# not shown: {change.path!r} ({change.kind})\n" for change in left_out[:_NAMED]]
    if len(left_out) > _NAMED:
        lines.append(f"# not shown: {len(left_out) - _NAMED} more\n")
    with target.open("a") as handle:
        handle.writelines(lines)
