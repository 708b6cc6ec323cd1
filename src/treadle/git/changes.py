"""List what is different in a workspace, with one call of git."""

import os
import re
import stat
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.errors import GitError, argument
from treadle.git import call, checkout, special
from treadle.git.checkout import Workspace

Kind = Literal["added", "modified", "deleted", "typechange", "repository", "folder"]

# The repository's own HEAD is another commit, so only the column that compares the work tree
# with the index counts. Submodules stay out: looking into one would run git by discovery.
_LIST = ("status", "--porcelain=v2", "-z", "-uall", "--no-renames", "--ignore-submodules=all")
_KINDS: dict[str, Kind] = {"M": "modified", "D": "deleted", "T": "typechange", "A": "added"}
_TRACKED_FIELDS = 8
_UNMERGED_FIELDS = 10
_UNREADABLE = re.compile(
    rb"^warning: could not open directory '([^\n]*?)/?(?:': .*)?$", re.MULTILINE
)
MAX_DEPTH = 64


class Change(NamedTuple):
    """One path that differs.

    A `repository` is a folder with a .git of its own, its path ends in /; a `folder` is one so
    deep that git cannot look into it.
    """

    path: str
    kind: Kind


class Survey(NamedTuple):
    """Everything git sees in a workspace beyond the index."""

    changes: tuple[Change, ...]
    ignored: tuple[str, ...]
    special: tuple[str, ...] = ()  # pipes, sockets and devices that lay there, now removed


def changes(ws: Workspace) -> tuple[Change, ...]:
    """Return the files that differ from the index; ignored ones do not count."""
    return _list(ws, ())[0]


def survey(ws: Workspace) -> Survey:
    """Return the files that differ and the ignored ones; a wholly ignored folder is one, in /."""
    return _list(ws, ("--ignored=matching",))


def _list(ws: Workspace, options: tuple[str, ...]) -> Survey:
    args = (*_LIST, *options)
    removed = special.clear(ws.path)
    done = checkout.run(ws, *args)
    if _UNREADABLE.search(done.stderr):
        open_up(ws)
        done = checkout.run(ws, *args)
    if done.returncode:
        raise call.failure(args, done)
    found = parse(done.stdout)
    if any(not change.path for change in found.changes):
        raise GitError(f"{ws.index} is damaged", fix=[f"rm {argument(str(ws.index))}"])
    deep = _too_deep(done.stderr)
    return Survey((*found.changes, *deep), found.ignored, _unexpected(ws, removed))


def _unexpected(ws: Workspace, removed: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the project does not ignore: programs leave sockets where they keep caches."""
    if not removed:
        return ()
    names = b"".join(os.fsencode(path) + b"\0" for path in removed)
    done = checkout.run(ws, "check-ignore", "-z", "--stdin", stdin=names)
    ignored = os.fsdecode(done.stdout).split("\0")
    return tuple(path for path in removed if path not in ignored)


def _too_deep(stderr: bytes) -> list[Change]:
    paths = [os.fsdecode(path).split("/") for path in _UNREADABLE.findall(stderr)]
    tops = {"/".join(parts[:MAX_DEPTH]) for parts in paths if len(parts) > MAX_DEPTH}
    return [Change(top, "folder") for top in sorted(tops)]


def parse(listing: bytes) -> Survey:
    """Read the second porcelain format."""
    found: list[Change] = []
    ignored: list[str] = []
    for line in os.fsdecode(listing).split("\0"):
        sign, _, rest = line.partition(" ")
        if sign == "?":
            found.append(Change(rest, "repository" if rest.endswith("/") else "added"))
        elif sign == "!":
            ignored.append(rest)
        elif sign in ("1", "u"):
            found += _tracked(line, _TRACKED_FIELDS if sign == "1" else _UNMERGED_FIELDS)
    return Survey(tuple(found), tuple(ignored))


def _tracked(line: str, fields: int) -> list[Change]:
    words = line.split(" ", fields)
    state = words[1][1]
    return [Change(words[fields], _KINDS.get(state, "modified"))] if state != "." else []


def open_up(ws: Workspace) -> None:
    """Give the owner back the rights to all folders, which an agent may have taken away."""
    pending = [(ws.path, 0)]
    while pending:
        folder, depth = pending.pop()
        open_folder(folder)
        if depth < MAX_DEPTH:
            pending += [(inner, depth + 1) for inner in _folders(folder)]


def open_folder(folder: Path) -> None:
    """Give the owner back the rights to one folder."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o700 != 0o700:
        folder.chmod(mode | 0o700)


def _folders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return [folder / item.name for item in entries if item.is_dir(follow_symlinks=False)]
