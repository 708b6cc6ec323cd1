"""Tell what a child changed outside its reach, and what the sandbox kept from it there."""

import operator
import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.files import walk
from treadle.sandbox import home as homes
from treadle.sandbox.policy import Closed, Place, Policy, layers, settled

MAX_ENTRIES = 20_000  # of one tree; of a bigger one, those nearest to its top
_SLACK = 20_000_000  # nanoseconds by which the clock of files lags behind


class Mark(NamedTuple):
    """What a file looks like from outside."""

    inode: int
    mode: int
    owner: int
    group: int
    size: int
    links: int
    modified: int
    changed: int

    @property
    def rights(self) -> tuple[int, int, int]:
        """Return its mode and its owners."""
        return self.mode, self.owner, self.group


_NAMED = Mark(*[0] * 8)


class View(NamedTuple):
    """How files looked at one moment.

    Of those that treadle and git write all the time only the rights count: `rights` are their
    modes and owners. A view that is not whole tells nothing about what is new or gone.
    """

    begun: int
    ended: int
    marks: dict[str, Mark]
    rights: Mapping[str, tuple[int, int, int]] = {}
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
    many: Iterable[Path] = (),
) -> View:
    """Note everything below `trees` and directly in `flat`, and the rights directly in `busy`.

    In `many` there may be so much that only the names are noted.
    """
    begun, is_whole, left_out = time.time_ns(), True, {str(path) for path in skip}
    listed = [f"{folder}/{name}" for folder in many for name in walk.names(folder)]
    marks = dict.fromkeys(set(listed) - left_out, _NAMED)
    for folder in flat:
        marks |= _below(folder, left_out, 0)
    for folder in trees:
        found = _below(folder, left_out, MAX_ENTRIES)
        is_whole = is_whole and len(found) <= MAX_ENTRIES
        marks |= found
    rights = {path: it.rights for at in busy for path, it in _below(at, set(), 0).items()}
    return View(begun, time.time_ns(), marks, rights, is_whole)


def compare(before: View, after: View) -> Changes:
    """Tell what happened to the files between two looks."""
    both = before.rights.keys() & after.rights.keys()
    content, metadata = [], [it for it in both if before.rights[it] != after.rights[it]]
    is_whole = before.is_whole and after.is_whole
    for path in sorted({path for path, _ in before.marks.items() ^ after.marks.items()}):
        old, new = before.marks.get(path), after.marks.get(path)
        if not (is_whole or (old and new)):
            continue
        if old and new and _is_only_about(old, new, before.begun - _SLACK, after.ended):
            metadata.append(path)
        elif not (old and new and stat.S_ISDIR(new.mode)):  # what is new in a folder shows itself
            content.append(path)
    return Changes(tuple(content), tuple(sorted(metadata)))


def _is_only_about(old: Mark, new: Mark, since: int, until: int) -> bool:
    """Tell a change of rights, times or attributes from a write, which sets its time to now."""
    if old.inode != new.inode:
        return False
    if not stat.S_ISDIR(new.mode) and (old.size, old.links) != (new.size, new.links):
        return False
    if old.rights != new.rights or old.modified == new.modified:
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


_OF_MARK = operator.attrgetter(
    *("st_ino", "st_mode", "st_uid", "st_gid", "st_size", "st_nlink", "st_mtime_ns", "st_ctime_ns")
)


def _mark(path: str) -> Mark | None:
    try:
        return Mark._make(_OF_MARK(os.lstat(path)))
    except OSError:
        return None


_TAIL = 64 << 10
_MAX_PATHS = 1000
# Folders of a home in which every program has its own.
_BROAD = ("", ".cache", ".config", ".local", ".local/share", ".local/state", "Library/Caches")
_REFUSED = r"Read-only file system|Permission denied|Operation not permitted|EROFS|EACCES|EPERM"
# How a program speaks of what it cannot read: in tier A it is not there, or it is empty.
_FAILED = r"(?:cannot|could not|unable to|failed to) \w+"
_MISSED = rf"No such file|Not a directory|ENOENT|ENOTDIR|no data|{_FAILED}"
_AROUND = r"\s:'\"`<>|,;()\u2018\u2019\u201c\u201d"
_PATH = rf"/[^{_AROUND}]{{1,1000}}+"
_SOCKETS = re.compile(r"Address family not supported|EAFNOSUPPORT")
_NETWORK = re.compile(
    r"name resolution|Name or service not known|Network is unreachable|ENETUNREACH|EAI_AGAIN"
    r"|Could not resolve|getaddrinfo|Temporary failure",
    re.IGNORECASE,
)


def _beside(words: str) -> re.Pattern[str]:
    """Find a path after or before such words, on one line; nothing is read twice, however long."""
    return re.compile(
        rf"(?:{words})[^\n/]{{0,40}}(?P<after>{_PATH})"
        rf"|(?:^|[{_AROUND}])[^/{_AROUND}]*+(?P<before>{_PATH})[^\n/]{{0,60}}(?:{words})",
        re.IGNORECASE | re.MULTILINE,
    )


_WRITES, _READS = _beside(_REFUSED), _beside(f"{_REFUSED}|{_MISSED}")


def explain_denial(log: Path, policy: Policy, home: Path, owner: str = "checks") -> str | None:
    """Return a sentence with the key to set, or None if nothing in the log speaks of a denial.

    `owner` is the table whose keys open what the command may write and whom it may talk to.
    """
    text, closed = walk.tail(log, _TAIL), Closed(layers(policy))
    for name in _paths(_READS, text):
        if told := _unread(name, closed, policy, home):
            return told
    for name in _paths(_WRITES, text):
        # A folder that is missing is made when it may be written.
        is_folder = bool(re.search(rf"(mkdir|directory)\W+{re.escape(name)}(?![^{_AROUND}])", text))
        if told := _unwritten(Path(name), policy, home, owner, is_folder=is_folder):
            return told
    refused = _SOCKETS.search(text)
    if not policy.network and (refused or _NETWORK.search(text)):
        return f'the sandbox keeps it off the network; {owner}.network = "full" would allow it'
    if refused and not policy.unix_sockets and not owner.startswith("agents"):
        text = "the sandbox blocked a Unix socket"
        return f"{text}; {owner}.unix_sockets = true would allow it"
    return None


def _paths(pattern: re.Pattern[str], text: str) -> list[str]:
    found = dict.fromkeys(match["after"] or match["before"] for match in pattern.finditer(text))
    return list(found)[:_MAX_PATHS]


def _unread(name: str, closed: Closed, policy: Policy, home: Path) -> str | None:
    """Say which key lets it read something that the policy closes and that is there."""
    place = closed.around(os.path.realpath(name))
    if place is None or place == os.path.realpath(name) == str(policy.home):
        return None
    if place != str(policy.home) and not homes.is_known(place, policy):
        return f"the sandbox hides {name}; take {_short(Path(place), home)} out of sandbox.hide"
    if not os.access(name, os.F_OK):
        return None
    short = _short(Path(name), home)
    return f'the sandbox blocked reading {short}; sandbox.read = ["{short}"] would allow it'


def _unwritten(
    path: Path, policy: Policy, home: Path, owner: str, *, is_folder: bool
) -> str | None:
    """Say which key lets it write there: the narrowest folder that is there, or can be made."""
    writable: tuple[Place, ...] = (*policy.writable, *settled(policy.writable))
    if any(path.is_relative_to(item) for item in writable):
        return None
    # What a log calls a path may be too long for one, lie behind a closed folder, or be a link.
    folder = next(item for item in (path, *path.parents) if walk.is_folder(f"{item}/."))
    if not os.access(folder, os.W_OK):  # outside of the sandbox it would fail as well
        return None
    missing = path.parts[len(folder.parts) :]
    if folder in {home / name for name in _BROAD} and len(missing) > (not is_folder):
        folder = folder / missing[0]
    if folder == home:  # that would open far more than what it missed
        return (
            f"the sandbox blocked a write to {path}; a folder there may stand in {owner}.writable"
        )
    allowed = _short(folder, home)
    return f'the sandbox blocked a write to {path}; {owner}.writable = ["{allowed}"] would allow it'


def _short(path: Path, home: Path) -> str:
    return (
        f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)
    )
