"""Look at files before and after a child worked, and tell what changed outside its reach.

Landlock cannot forbid changes of rights, owners, times and attributes; without a sandbox nothing
is forbidden. The time of the last change, which no program can set, gives all of them away.
"""

import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

MAX_ENTRIES = 20_000  # of one tree; of a bigger one, those nearest to its top
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
    """How files looked at one moment.

    Of those that treadle and git write all the time only the rights count: `rights` are their
    modes and owners. A view that is not whole tells nothing about what is new or gone.
    """

    begun: int
    ended: int
    marks: Mapping[str, Mark]
    rights: Mapping[str, tuple[int, tuple[int, int]]] = {}
    is_whole: bool = True


class Changes(NamedTuple):
    """Paths that differ: in what they hold, or only in what is said about them."""

    content: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()


def look(
    trees: Iterable[Path],
    flat: Iterable[Path],
    skip: Iterable[Path] = (),
    *,
    busy: Iterable[Path] = (),
) -> View:
    """Note everything below `trees` and directly in `flat`, and the rights directly in `busy`."""
    begun, marks, is_whole = time.time_ns(), dict[str, Mark](), True
    left_out = {str(path) for path in skip}
    for folder in flat:
        marks |= _below(folder, left_out, 0)
    for folder in trees:
        found = _below(folder, left_out, MAX_ENTRIES)
        is_whole = is_whole and len(found) <= MAX_ENTRIES
        marks |= found
    rights = {path: (it.mode, it.owner) for at in busy for path, it in _below(at, set(), 0).items()}
    return View(begun, time.time_ns(), marks, rights, is_whole)


def compare(before: View, after: View) -> Changes:
    """Tell what happened to the files between two looks."""
    content, metadata = [], _other_rights(before, after)
    is_whole = before.is_whole and after.is_whole
    for path in sorted(before.marks.keys() | after.marks.keys()):
        old, new = before.marks.get(path), after.marks.get(path)
        if old == new or not (is_whole or (old and new)):
            continue
        if old and new and _is_only_about(old, new, before.begun - _SLACK, after.ended):
            metadata.append(path)
        elif not (old and new and stat.S_ISDIR(new.mode)):  # what is new in a folder shows itself
            content.append(path)
    return Changes(tuple(content), tuple(sorted(metadata)))


def _other_rights(before: View, after: View) -> list[str]:
    both = before.rights.keys() & after.rights.keys()
    return [path for path in both if before.rights[path] != after.rights[path]]


def _is_only_about(old: Mark, new: Mark, since: int, until: int) -> bool:
    """Tell a change of rights, times or attributes from a write, which sets its time to now."""
    if old.inode != new.inode:
        return False
    if not stat.S_ISDIR(new.mode) and (old.size, old.links) != (new.size, new.links):
        return False
    if (old.mode, old.owner) != (new.mode, new.owner) or old.modified == new.modified:
        return True
    return not since <= new.modified <= until


def _below(folder: Path, skip: set[str], limit: int) -> dict[str, Mark]:
    """Note a folder and what is in it; deeper ones as long as there are no more than `limit`."""
    top = os.fspath(folder)
    if not (mark := _mark(top)):
        return {}
    marks, pending = {top: mark}, deque([top] if stat.S_ISDIR(mark.mode) else [])
    while pending:
        try:
            found = os.scandir(pending.popleft())
        except OSError:  # gone, or not ours
            continue
        with found:
            for item in found:
                if item.path in skip or not (mark := _mark(item.path)):
                    continue
                marks[item.path] = mark
                if stat.S_ISDIR(mark.mode):
                    pending.append(item.path)
        if len(marks) > limit:
            break
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
