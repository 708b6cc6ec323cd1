"""Ignored files that a project names come into a workspace, and only there."""

from tests.builder import git, write_files
from tests.git.support import make, open_workspace
from treadle.git import workspace

FILES = {".gitignore": "*.env\n", ".worktreeinclude": "*.env\n", "file": "x\n", "d/f": "y\n"}


def test_named_ignored_files_are_copied_where_folders_are_folders(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    place = make(tmp_path / "p", FILES)
    (place.root / "link").symlink_to(outside)
    git(place.root, "add", "link")
    git(place.root, "commit", "-q", "-m", "link")
    for name in ("file", "link"):
        (place.root / name).unlink()
    write_files(
        place.root, {"file/a.env": "1", "link/b.env": "2", "d/c.env": "3", "new/d.env": "4"}
    )
    ws = open_workspace(place, tmp_path)
    assert workspace.copy_included(place, ws.path) == ("d/c.env", "new/d.env")
    assert list(outside.iterdir()) == []
