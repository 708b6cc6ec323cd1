"""Look at files before and after a child worked, and tell what changed outside its reach.

Landlock cannot forbid changes of rights, owners, times and attributes; without a sandbox nothing
is forbidden. The time of the last change, which no program can set, gives all of them away.
"""

import os
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

MAX_ENTRIES = 20_000
_SLACK = 20_000_000  # nanoseconds by which the clock of files lags behind


class Mark(NamedTuple):
    """What a file looks like from outside."""

    inode: int
    mode: int
    owner: tuple[int, int]
    size: int
    links: int
    modified: int
    changed: int


class View(NamedTuple):
    """How files looked at one moment."""

    begun: int
    ended: int
    marks: Mapping[str, Mark]


class Changes(NamedTuple):
    """Paths that differ: in what they hold, or only in what is said about them."""

    content: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()


def look(trees: Iterable[Path], flat: Iterable[Path], skip: Iterable[Path] = ()) -> View:
    """Note everything below `trees` and directly in `flat`; a tree that is too big is left out."""
    begun, marks = time.time_ns(), dict[str, Mark]()
    left_out = {str(path) for path in skip}
    for folder, is_deep in [*((it, False) for it in flat), *((it, True) for it in trees)]:
        marks |= _below(folder, left_out, is_deep)
    return View(begun, time.time_ns(), marks)


def compare(before: View, after: View) -> Changes:
    """Tell what happened to the files between two looks."""
    content, metadata = [], []
    for path in sorted(before.marks.keys() | after.marks.keys()):
        old, new = before.marks.get(path), after.marks.get(path)
        if old == new:
            continue
        if old and new and _is_only_about(old, new, before.begun - _SLACK, after.ended):
            metadata.append(path)
        elif not (old and new and stat.S_ISDIR(new.mode)):  # what is new in a folder shows itself
            content.append(path)
    return Changes(tuple(content), tuple(metadata))


def _is_only_about(old: Mark, new: Mark, since: int, until: int) -> bool:
    """Tell a change of rights, times or attributes from a write, which sets its time to now."""
    if old.inode != new.inode:
        return False
    if not stat.S_ISDIR(new.mode) and (old.size, old.links) != (new.size, new.links):
        return False
    if (old.mode, old.owner) != (new.mode, new.owner) or old.modified == new.modified:
        return True
    return not since <= new.modified <= until


def _below(folder: Path, skip: set[str], is_deep: bool) -> dict[str, Mark]:
    pending = [os.fspath(folder)]
    if not (mark := _mark(pending[0])):
        return {}
    marks = {pending[0]: mark}
    while pending:
        try:
            found = os.scandir(pending.pop())
        except OSError:  # gone, or not ours
            continue
        with found:
            for item in found:
                if item.path in skip or not (mark := _mark(item.path)):
                    continue
                marks[item.path] = mark
                if is_deep and stat.S_ISDIR(mark.mode):
                    pending.append(item.path)
        if len(marks) > MAX_ENTRIES:
            return {}
    return marks


def _mark(path: str) -> Mark | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return Mark(
        found.st_ino,
        found.st_mode,
        (found.st_uid, found.st_gid),
        found.st_size,
        found.st_nlink,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )
