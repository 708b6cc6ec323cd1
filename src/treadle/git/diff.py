"""Keep what was different in a workspace as a patch."""

from collections.abc import Iterable
from pathlib import Path

from treadle.git import build, changes, scratch
from treadle.git.changes import Change
from treadle.git.checkout import Workspace

MAX_FILE_BYTES = 10_000_000
MAX_BYTES = 50_000_000
MAX_FILES = 5_000
_NAMED = 200
_DIFF = (
    "diff-index --cached -p --binary --full-index --no-renames"
    " --no-ext-diff --no-textconv --no-color --ignore-submodules=none"
)


def write(
    ws: Workspace, commit: str, target: Path, found: Iterable[Change] | None = None
) -> tuple[Change, ...]:
    """Write the differences to `commit` as a diff git can apply; return what it is about.

    Nothing reaches the repository's object store. What is too big is only named.
    """
    edits = tuple(changes.changes(ws) if found is None else found)
    taken = _small_ones(ws, edits)
    place = scratch.make(ws.repo, target.with_name(f".{target.name}.scratch"), ws.runner)
    try:
        scratch.seed(place, commit, ws)
        build.stage(ws, place, taken)
        target.write_bytes(scratch.out(place, *_DIFF.split(), commit))
    finally:
        scratch.drop(place)
    _append(target, [change for change in edits if change not in taken])
    return edits


def _small_ones(ws: Workspace, edits: tuple[Change, ...]) -> set[Change]:
    """Choose what a diff for people can hold."""
    taken: set[Change] = set()
    left = MAX_BYTES
    for change in edits:
        size = build.file_size(ws.path / change.path)
        if (
            len(taken) < MAX_FILES
            and size <= min(left, MAX_FILE_BYTES)
            and change.kind not in build.OPAQUE
        ):
            taken.add(change)
            left -= size
    return taken


def _append(target: Path, left_out: list[Change]) -> None:
    lines = [f"# not shown: {change.path!r} ({change.kind})\n" for change in left_out[:_NAMED]]
    if len(left_out) > _NAMED:
        lines.append(f"# not shown: {len(left_out) - _NAMED} more\n")
    with target.open("a") as handle:
        handle.writelines(lines)
