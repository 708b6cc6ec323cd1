"""Keep what was different in a workspace as a patch."""

from collections.abc import Iterable
from pathlib import Path

from treadle.git import build, changes, checkout, scratch
from treadle.git.changes import Change
from treadle.git.checkout import Workspace

MAX_FILE_BYTES = 10_000_000


def write(
    ws: Workspace, commit: str, target: Path, found: Iterable[Change] | None = None
) -> tuple[Change, ...]:
    """Write the differences to `commit` as a diff git can apply; return what it is about.

    Nothing reaches the repository's object store. Files that are too big are only named.
    """
    edits = tuple(changes.changes(ws) if found is None else found)
    taken = [change for change in edits if _size(ws.path / change.path) <= MAX_FILE_BYTES]
    place = scratch.make(ws.repo, target.with_name(f".{target.name}.scratch"))
    try:
        known = checkout.commit_of(ws) == commit
        scratch.seed(place, commit, ws.index if known else None)
        build.stage(ws, place, taken)
        scratch.out(place, *_DIFF, f"--output={target}", commit)
    finally:
        scratch.drop(place)
    _append(target, [change for change in edits if change not in taken or _is_opaque(change)])
    return edits


_DIFF = (
    "diff-index",
    "--cached",
    "-p",
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=none",
)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _is_opaque(change: Change) -> bool:
    return change.kind in ("repository", "folder")


def _append(target: Path, left_out: list[Change]) -> None:
    if left_out:
        with target.open("a", errors="surrogateescape") as handle:
            handle.writelines(
                f"# not shown: {change.path!r} ({change.kind})\n" for change in left_out
            )
