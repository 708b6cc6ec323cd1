"""See a folder as a value that can be compared."""

from pathlib import Path


def snapshot(root: Path) -> dict[str, tuple[int, bytes | None]]:
    """Return every file and folder below `root` with mode and content; git's own are left out."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else None,
        )
        for path in root.rglob("*")
        if ".git" not in path.relative_to(root).parts
    }
