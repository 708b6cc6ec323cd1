"""Read the difference of two trees: its records and its canonical diff, in one call of git."""

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from treadle.git import call
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch

NONE, LINK, GITLINK = "000000", "120000", "160000"

# Renames are looked for so that a moved file costs no more than its two names.
_DIFF = (
    "diff-tree -r -z --raw -p --binary --full-index -M -l100"
    " --no-ext-diff --no-textconv --no-color --ignore-submodules=none"
)
_SECTION = re.compile(rb"^diff --git ", re.MULTILINE)


class FileChange(NamedTuple):
    """One path that differs; a missing side has mode 000000."""

    path: str
    old_mode: str
    new_mode: str

    @property
    def is_added(self) -> bool:
        """Tell whether the name is new."""
        return self.old_mode == NONE

    @property
    def is_deleted(self) -> bool:
        """Tell whether the name goes."""
        return self.new_mode == NONE


class Difference(NamedTuple):
    """What lies between two trees; the diff can be applied and does not depend on settings."""

    files: tuple[FileChange, ...]
    sizes: tuple[tuple[str, int], ...]
    diff: bytes


class _Record(NamedTuple):
    old_mode: str
    new_mode: str
    status: str
    paths: tuple[str, ...]


def read(place: Scratch | Repo, base_tree: str, new_tree: str) -> Difference:
    """Compare two trees."""
    output = call.out([*_DIFF.split(), base_tree, new_tree], place.place)
    records, end = _records(output)
    diff = output[end:]
    files = {change for record in records for change in _changes(record)}
    return Difference(tuple(sorted(files)), tuple(_sizes(records, diff)), diff)


def _records(output: bytes) -> tuple[list[_Record], int]:
    """Return the raw records and where the diff behind them begins."""
    records, position = [], 0
    while output[position : position + 1] == b":":
        end = output.index(b"\0", position)
        old_mode, new_mode, _, _, status = output[position + 1 : end].decode("ascii").split(" ")
        names = []
        for _ in range(2 if status[0] in "RC" else 1):
            start, end = end + 1, output.index(b"\0", end + 1)
            names.append(os.fsdecode(output[start:end]))
        records.append(_Record(old_mode, new_mode, status[0], tuple(names)))
        position = end + 1
    return records, position + 1 if records else position


def _changes(record: _Record) -> list[FileChange]:
    if record.status != "R":
        return [FileChange(record.paths[-1], record.old_mode, record.new_mode)]
    old, new = record.paths
    return [FileChange(old, record.old_mode, NONE), FileChange(new, NONE, record.new_mode)]


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
