"""List folders of a tree, without a call of git where their objects are files."""

import os
from collections.abc import Iterable

from treadle.git import call, objects
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch


def names(place: Scratch | Repo, tree: str, folders: Iterable[str]) -> dict[str, list[str]]:
    """Return the names in each of these folders of a tree; the root is the empty string."""
    wanted = sorted(set(folders))
    found = _read(place, tree, wanted)
    missing = [folder for folder in wanted if folder not in found]
    return found | (_ask(place, tree, missing) if missing else {})


def _read(place: Scratch | Repo, tree: str, folders: Iterable[str]) -> dict[str, list[str]]:
    """Follow the folders down as far as their objects lie in files of their own."""
    stores = place.stores if isinstance(place, Scratch) else (place.objects,)
    ids = {"": tree}
    found: dict[str, list[str]] = {}
    for folder in folders:
        content = objects.read(stores, ids[folder]) if folder in ids else None
        if content is not None:
            entries = dict(_entries(content, len(tree) // 2))
            ids |= {_join(folder, name): entry for name, entry in entries.items()}
            found[folder] = list(entries)
    return found


def _ask(place: Scratch | Repo, tree: str, folders: list[str]) -> dict[str, list[str]]:
    lines = "".join(f"{tree}:{folder}\n" for folder in folders)
    output = call.out(["cat-file", "--batch"], place.place, stdin=os.fsencode(lines))
    found: dict[str, list[str]] = {}
    for folder in folders:
        header, _, output = output.partition(b"\n")
        size = int(header.rpartition(b" ")[2])
        found[folder] = [name for name, _ in _entries(output[:size], len(tree) // 2)]
        output = output[size + 1 :]
    return found


def _entries(content: bytes, width: int) -> list[tuple[str, str]]:
    """Return names and ids of a tree object."""
    entries, position = [], 0
    while position < len(content):
        start = content.index(b" ", position) + 1
        end = content.index(b"\0", start)
        position = end + 1 + width
        entries.append((os.fsdecode(content[start:end]), content[end + 1 : position].hex()))
    return entries


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
