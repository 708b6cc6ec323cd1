"""Specs: which ones there are, which are finished, what one says."""

import contextlib
import hashlib
import itertools
import os
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from treadle import frontmatter
from treadle.engine.landing import tracker
from treadle.errors import BlockedError, FormatError
from treadle.files import atomic, beneath, walk
from treadle.inbox import box
from treadle.inbox.message import read_text
from treadle.layout import Layout

SUFFIX = ".spec.md"
_NUMBER = re.compile(r"\d+")


class Spec(NamedTuple):
    """One spec: its file's name and bytes, its text without fields, the routine it names."""

    name: str
    digest: str
    text: str
    routine: str | None


def require_folder(layout: Layout) -> None:
    """Refuse a folder of specs that git does not see into: its list could never land."""
    what = "a symbolic link" if layout.specs.is_symlink() else "a repository of its own"
    if layout.specs.is_symlink() or os.path.lexists(layout.specs / ".git"):
        name = layout.relative(layout.specs)
        raise BlockedError(
            f"{name} is {what}, so the list of finished specs in it cannot be landed;"
            " make it a plain folder of this repository",
            code="specs_elsewhere",
            fix=[f"ls -la {name}"],
        )


def names(layout: Layout) -> list[str]:
    """Return every spec's file name, in the order they are worked on."""
    return sorted(filter(is_listable, _found(layout)))


def unlistable(layout: Layout) -> list[str]:
    """Return specs whose names cannot stand in a list of one name a line."""
    return sorted(name for name in _found(layout) if not is_listable(name))


def is_listable(name: str) -> bool:
    """Tell whether a name is one line of text."""
    return name.isprintable() and name == name.strip()


def _found(layout: Layout) -> list[str]:
    found = walk.names(layout.specs)
    return [name for name in found if name.endswith(SUFFIX) and not name.startswith(".")]


def unprocessed(layout: Layout) -> list[str]:
    """Return the specs that the tracker does not list."""
    done = tracker.names(tracker.read(layout))
    return [name for name in names(layout) if name not in done]


def mark_processed(layout: Layout, name: str) -> None:
    """List a spec, once."""
    content = tracker.read(layout)
    if name in tracker.names(content):
        return
    line = tracker.add(content, name)[len(content) :]
    try:
        atomic.append(layout.tracker, line)
    except FileNotFoundError:  # its routine took the folder away
        layout.specs.mkdir()
        atomic.append(layout.tracker, line)


def path_of(name: str) -> str:
    """Return what a message for this spec has as its `input_file`."""
    return f"specs/{name}"


def glance(layout: Layout, name: str) -> tuple[str | None, str | None]:
    """Return a spec's digest and the routine it names, None for what cannot be read."""
    try:
        data = box.read(f"{layout.specs}/{name}")
    except (FormatError, OSError):
        return None, None
    routine = None
    with contextlib.suppress(FormatError):
        routine = read_text(frontmatter.read(data).fields.get("routine"))
    return hashlib.sha256(data).hexdigest(), routine


def read(layout: Layout, input_file: str | None) -> Spec:
    """Return a spec by its path in the project; FormatError if it is not there or no text."""
    path = PurePosixPath(input_file or "")
    if input_file is None or path.is_absolute() or ".." in path.parts or "\0" in input_file:
        raise _missing(input_file)
    try:
        is_inside = beneath.is_within(layout.root, str(path))
        data = box.read(f"{layout.root}/{path}") if is_inside else None
    except OSError as error:
        raise _missing(input_file) from error
    if data is None:
        raise _missing(input_file)
    document = frontmatter.read(data)
    return Spec(
        name=path.name,
        digest=hashlib.sha256(data).hexdigest(),
        text=document.body.decode(),
        routine=read_text(document.fields.get("routine")),
    )


def _missing(input_file: str | None) -> FormatError:
    what = f"{input_file[:200]!r} is not a file of this project" if input_file else "there is none"
    return FormatError(f"input_file: {what}; name a spec in it", code="spec_not_found")


def out_of_order(found: list[str]) -> tuple[str, str] | None:
    """Return two specs whose numbers say another order than their names."""
    numbered = [(int(number[0]), name) for name in found if (number := _NUMBER.match(name))]
    pairs = itertools.pairwise(numbered)
    return next(((one[1], two[1]) for one, two in pairs if one[0] > two[0]), None)
