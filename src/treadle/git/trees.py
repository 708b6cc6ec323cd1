"""Read and write folders of a tree, without a call of git where their objects are files."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.git import call, objects
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch

_FOLDER = b"40000"
_ROW = {width: re.compile(rb"(\d+) ([^\0]+)\0(.{%d})" % width, re.DOTALL) for width in (20, 32)}


class Entry(NamedTuple):
    """What stands under a name: its mode and its object, as git writes them in a tree."""

    mode: bytes
    id: bytes


# A folder may have thousands of entries of which one changes: rows stay as they were read.
Row = tuple[bytes, bytes, bytes]  # mode, name, id
Folder = dict[bytes, Row]


def names(place: Scratch | Repo, tree: str, folders: Iterable[str]) -> dict[str, list[str]]:
    """Return the names in each of these folders of a tree; the root is the empty string."""
    found = _folders(place, tree, folders)
    return {folder: [os.fsdecode(name) for name in rows] for folder, rows in found.items()}


def edited(place: Scratch, base: str, files: Mapping[str, Entry | None]) -> str:
    """Write the tree of `base` with these files in it, or without those that are None."""
    rows = _folders(place, base, {"", *(up for path in files for up in above(path))})
    changes: dict[str, dict[bytes, Entry | None]] = {folder: {} for folder in rows}
    for path, entry in files.items():
        if entry or path not in rows:
            changes[_parent(path)][_name(path)] = entry
    root = ""
    for folder in sorted(rows, key=lambda path: len(above(path)) + bool(path), reverse=True):
        content = _changed(rows[folder], changes[folder])
        if not folder:
            root = _write(place, content)
        elif _name(folder) not in changes[_parent(folder)]:
            made = Entry(_FOLDER, bytes.fromhex(_write(place, content))) if content else None
            changes[_parent(folder)][_name(folder)] = made
    return root


def above(path: str) -> list[str]:
    """Return the folders above a path, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _folders(place: Scratch | Repo, tree: str, wanted: Iterable[str]) -> dict[str, Folder]:
    """Return what these folders of a tree or commit hold; one that is not there holds nothing."""
    paths = sorted(set(wanted))
    found = _read(place, tree, paths)
    missing = [folder for folder in paths if folder not in found]
    return found | (_ask(place, tree, missing) if missing else {})


def _read(place: Scratch | Repo, tree: str, folders: Iterable[str]) -> dict[str, Folder]:
    """Follow the folders down as far as their objects lie in files of their own."""
    stores = place.stores if isinstance(place, Scratch) else (place.objects,)
    ids = {"": _root(stores, tree)}
    found: dict[str, Folder] = {}
    for folder in folders:
        if folder not in ids:
            if folder and _parent(folder) in found:
                found[folder] = {}
            continue
        content = objects.read(stores, ids[folder])
        if content is not None:
            found[folder] = _entries(content, len(tree) // 2)
            below = f"{folder}/" if folder else ""
            inner = [row for row in found[folder].values() if row[0] == _FOLDER]
            ids |= {below + os.fsdecode(name): id_.hex() for _, name, id_ in inner}
    return found


def _root(stores: Iterable[Path], tree: str) -> str:
    """Return the tree of a commit whose object is a file; other ids stay."""
    content = objects.read(stores, tree) or b""
    start = len(b"tree ")
    is_commit = content.startswith(b"tree ")
    return content[start : start + len(tree)].decode("ascii") if is_commit else tree


def _ask(place: Scratch | Repo, tree: str, folders: list[str]) -> dict[str, Folder]:
    lines = "".join(f"{tree}:{folder}\n" for folder in folders)
    output = call.out(["cat-file", "--batch"], place.place, stdin=os.fsencode(lines))
    found: dict[str, Folder] = {}
    for folder in folders:
        header, _, output = output.partition(b"\n")
        found[folder] = {}
        if header.endswith(b" missing"):
            continue
        _, kind, size = header.split(b" ")
        if kind == b"tree":
            found[folder] = _entries(output[: int(size)], len(tree) // 2)
        output = output[int(size) + 1 :]
    return found


def _entries(content: bytes, width: int) -> Folder:
    """Read a tree object."""
    return {row[1]: row for row in _ROW[width].findall(content)}


def _changed(rows: Folder, changes: Mapping[bytes, Entry | None]) -> Folder:
    new = {name: (entry.mode, name, entry.id) for name, entry in changes.items() if entry}
    return {name: row for name, row in rows.items() if name not in changes} | new


def _write(place: Scratch, rows: Folder) -> str:
    """Write a tree object."""
    content = b"".join([b"%s %s\0%s" % row for row in sorted(rows.values(), key=_order)])
    return objects.write(place.store, "tree", content, place.repo.object_format)


def _order(row: Row) -> bytes:
    """Sort as git does: a folder as if its name ended in a slash."""
    return row[1] + b"/" if row[0] == _FOLDER else row[1]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> bytes:
    return os.fsencode(path.rpartition("/")[2])
