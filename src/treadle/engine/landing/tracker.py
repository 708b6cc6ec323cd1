"""The list of finished specs, `specs/processed-spec.md`, as part of what lands."""

from treadle.engine.run.run import Run
from treadle.errors import FormatError
from treadle.files import walk
from treadle.git import trees
from treadle.git.scratch import Scratch
from treadle.layout import Layout

_MAX = 8 << 20


def names(content: bytes) -> set[str]:
    """Return the specs that are listed."""
    return {line.strip() for line in content.decode(errors="replace").splitlines()} - {""}


def add(content: bytes, name: str) -> bytes:
    """Return the list with one more line."""
    eol = b"\r\n" if b"\r\n" in content else b"\n"
    gap = b"" if not content or content.endswith(b"\n") else eol
    return content + gap + name.encode() + eol


def read(layout: Layout) -> bytes:
    """Return the list as it stands in the user's checkout; a missing one is empty."""
    try:
        return walk.read(layout.tracker, max_bytes=_MAX)
    except FormatError:
        if layout.tracker.is_symlink() or layout.tracker.exists():
            raise
        return b""


def listed(run: Run, place: Scratch, tip: str, tree: str) -> str:
    """Return the tree of a landing with the run's spec in the list.

    A list that the user has changed and not committed stays out of it: landing must not
    stumble over it, and the line is added to the user's file afterwards.
    """
    message, layout = run.order.message, run.tools.layout
    if message is None or message.spec is None or run.order.in_project:
        return tree
    path = layout.relative(layout.tracker)
    committed = trees.read_blob(run.tools.repo, f"{tip}:{path}") or b""
    if read(layout) != committed or message.spec in names(committed):
        return tree
    inside = trees.read_blob(place, f"{tree}:{path}")
    content = committed if inside is None else inside
    return trees.put_file(place, tree, path, add(content, message.spec))
