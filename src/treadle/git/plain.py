"""Build a tree from a few edited files and the folders they lie in, without a whole index."""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from treadle.git import call, checkout, objects, scratch, trees
from treadle.git.checkout import Workspace
from treadle.git.scratch import Scratch
from treadle.git.trees import Entry

_HASH = ("hash-object", "-w", "--stdin-paths")
_MAX_FILES = 1_000
_MAX_BYTES = 32 << 20
# Settings under which git takes names or modes from the index, not from the disk.
_USUAL = {
    "core.filemode": "true",
    "core.symlinks": "true",
    "core.ignorecase": "false",
    "core.sparsecheckout": "false",
}


def write(ws: Workspace, base: str, place: Scratch, names: Sequence[str]) -> str | None:
    """Return the tree of `base` with the files under these names; None if it takes an index.

    It does where what git stores depends on the index too: for carriage returns, which are kept
    if they were there before, and for attributes whose file is gone. The list of what has changed
    is left for whoever brings the workspace's own index there.
    """
    if not _are_usual(ws, names):
        return None
    try:
        files = _files(ws, place, names)
    except PermissionError:
        return None  # the way through the index opens folders up
    if files is None:
        return None
    tree = trees.edited(place, base, files)
    place.listing.write_bytes(_listing(base, files))
    return tree


def bring(ws: Workspace, listing: Path) -> bool:
    """Bring the workspace's index to the listed state; False if it does not hold the base."""
    base, _, lines = listing.read_bytes().partition(b"\n")
    if not checkout.holds(ws, base.decode("ascii")):
        return False
    checkout.forget(ws)
    return checkout.run(ws, "update-index", "-z", "--index-info", stdin=lines).returncode == 0


def _are_usual(ws: Workspace, names: Sequence[str]) -> bool:
    if len(names) > _MAX_FILES or any("\n" in name or name.startswith('"') for name in names):
        return False
    if any(name.rpartition("/")[2].casefold() == ".gitattributes" for name in names):
        return False
    return all((ws.config.get(key) or value).lower() == value for key, value in _USUAL.items())


def _files(ws: Workspace, place: Scratch, names: Sequence[str]) -> dict[str, Entry | None] | None:
    found: dict[str, Entry | None] = {}
    modes: dict[str, bytes] = {}
    left = _MAX_BYTES
    for name in names:
        path = ws.path / name
        try:
            state = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            found[name] = None
            continue
        left -= state.st_size
        if stat.S_ISLNK(state.st_mode):
            text, kind = os.fsencode(path.readlink()), place.repo.object_format
            id_ = objects.write(place.store, "blob", text, kind)
            found[name] = Entry(b"120000", bytes.fromhex(id_))
        elif left < 0 or not stat.S_ISREG(state.st_mode) or b"\r" in path.read_bytes():
            return None
        else:
            modes[name] = b"100755" if state.st_mode & stat.S_IXUSR else b"100644"
    ids = _stored(ws, place, list(modes))
    if len(ids) != len(modes):
        return None
    stored = zip(modes.items(), ids, strict=True)
    return found | {name: Entry(mode, bytes.fromhex(id_)) for (name, mode), id_ in stored}


def _stored(ws: Workspace, place: Scratch, names: Sequence[str]) -> list[str]:
    """Store files as git would, filters and all, and return their ids; none if git cannot."""
    if not names:
        return []
    done = call.run(
        _HASH,
        place.place | {"GIT_WORK_TREE": str(ws.path)},
        stdin=b"\n".join(os.fsencode(name) for name in names),
        config=(*checkout.settings(ws), *checkout.lfs(ws, place.folder), scratch.NO_SYNC),
        cwd=ws.path,
        reach=place.reach(),
    )
    scratch.vouch(place)
    return [] if done.returncode else done.stdout.decode("ascii").split()


def _listing(base: str, files: Mapping[str, Entry | None]) -> bytes:
    """Write the lines by which `update-index` learns of changes, below the commit they follow."""
    none = Entry(b"0", bytes(len(base) // 2))
    rows = [(os.fsencode(name), entry or none) for name, entry in files.items()]
    # What goes comes first: it may stand where a folder comes to be.
    rows.sort(key=lambda row: row[1] != none)
    lines = [b"%s %s\t%s\0" % (entry.mode, entry.id.hex().encode(), name) for name, entry in rows]
    return base.encode("ascii") + b"\n" + b"".join(lines)
