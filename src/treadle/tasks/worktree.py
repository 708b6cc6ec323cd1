"""Refuse to move a mission's tasks while the work tree has changes that nobody committed."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from treadle.errors import BlockedError
from treadle.git import repo
from treadle.layout import SNAPSHOT

SNAPSHOT_PATTERN = f"**/.kittify/dossiers/*/{SNAPSHOT}"
_SHOWN = 20


def require_clean(root: Path, allowed: Sequence[str] = ()) -> None:
    """Stop if files are uncommitted; `allowed` are files or folders that may be."""
    dirty = [name for name in dirty_files(root) if not _is_below(name, allowed)]
    if not dirty:
        return
    shown = ", ".join(dirty[:_SHOWN])
    more = f" and {len(dirty) - _SHOWN} more" if len(dirty) > _SHOWN else ""
    raise BlockedError(
        f"the work tree has uncommitted changes: {shown}{more}; commit them or put them aside",
        code="dirty_worktree",
        fix=["git status", "git add -A && git commit"],
        details={"files": dirty[:_SHOWN], "count": len(dirty)},
    )


def dirty_files(root: Path) -> list[str]:
    """Return the uncommitted files; snapshots of dossiers are derived and never count."""
    return [name for name in repo.dirty_files(root, [SNAPSHOT_PATTERN]) if not is_snapshot(name)]


def is_snapshot(name: str) -> bool:
    """Tell whether a path is a dossier's snapshot, wherever it lies."""
    parts = PurePosixPath(name).parts
    return parts[-4:-2] == (".kittify", "dossiers") and parts[-1] == SNAPSHOT


def _is_below(name: str, allowed: Sequence[str]) -> bool:
    return any(name == path or name.startswith(f"{path}/") for path in allowed)
