"""Trees built without an index are those that git would have built with one."""

import pytest

from tests.builder import git, write_files
from tests.git.support import head, make, open_workspace
from treadle.git import build, plain, scratch, trees, workspace
from treadle.git.trees import Entry

FILES = {"a": "a\n", "a.b": "x\n", "a0/z": "z\n", "d/e/f": "f\n", "d/g": "g\n", "run": "#!\n"}


def edit(root):
    """Change, add and delete in every way that can move a name in a tree."""
    write_files(root, {"d/g": "new\n", "d.x": "beside a folder\n", "n/ew/file": "n\n", "leer": ""})
    (root / "d" / "e" / "f").unlink()
    (root / "run").chmod(0o755)
    (root / "link").symlink_to("d/g")
    write_files(root, {"bär/ü": "ü\n", " lead": "l\n", "a0/-x": "y\n"})


def harvested(ws, folder):
    return build.from_edits(ws, head(ws.repo), folder)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_tree_is_the_one_git_writes(tmp_path, monkeypatch, form, is_packed):
    place = make(tmp_path / "p", FILES, f"--object-format={form}")
    if is_packed:
        git(place.root, "gc", "-q", "--prune=now")
    ws = open_workspace(place, tmp_path)
    edit(ws.path)
    quick = harvested(ws, tmp_path / "quick")
    assert quick.scratch.listing.is_file()
    monkeypatch.setattr(plain, "_MAX_FILES", 0)
    slow = harvested(ws, tmp_path / "slow")
    assert not slow.scratch.listing.exists()
    assert quick.tree == slow.tree


def test_workspace_follows_and_is_clean(tmp_path):
    place = make(tmp_path / "p", FILES)
    ws = open_workspace(place, tmp_path)
    edit(ws.path)
    built = harvested(ws, tmp_path / "s")
    scratch.keep(built.scratch)
    new = git(place.root, "commit-tree", "-m", "x", "-p", "HEAD", built.tree).strip()
    workspace.adopt(ws, built.scratch, new)
    assert workspace.changes(ws) == ()
    git(place.root, "fsck", "--strict", "--no-dangling")


def test_index_that_does_not_hold_the_base_is_made_anew(tmp_path):
    place = make(tmp_path / "p", FILES)
    ws = open_workspace(place, tmp_path)
    edit(ws.path)
    built = harvested(ws, tmp_path / "s")
    scratch.keep(built.scratch)
    new = git(place.root, "commit-tree", "-m", "x", "-p", "HEAD", built.tree).strip()
    ws.marker.unlink()
    workspace.adopt(ws, built.scratch, new)
    assert workspace.changes(ws) == ()


@pytest.mark.parametrize(
    "files",
    [
        {"dos": "x\r\n"},
        {".gitattributes": "* text\n"},
        {"d/.GitAttributes": "* text\n"},
        {"new\nline": "x\n"},
        {'"quoted': "x\n"},
    ],
)
def test_what_depends_on_the_index_goes_through_it(tmp_path, files):
    ws = open_workspace(make(tmp_path / "p", FILES), tmp_path)
    write_files(ws.path, files)
    assert not harvested(ws, tmp_path / "s").scratch.listing.exists()


@pytest.mark.parametrize("setting", ["core.fileMode=no", "core.symlinks=false"])
def test_unusual_settings_go_through_the_index(tmp_path, setting):
    place = make(tmp_path / "p", FILES)
    git(place.root, "config", *setting.split("="))
    ws = open_workspace(place, tmp_path)
    (ws.path / "run").write_text("x\n")
    assert not harvested(ws, tmp_path / "s").scratch.listing.exists()


def test_file_and_folder_of_one_name(tmp_path):
    place = make(tmp_path / "p", FILES)
    spot = scratch.make(place, tmp_path / "s")
    blob = Entry(b"100644", bytes.fromhex(git(place.root, "rev-parse", "HEAD:a").strip()))
    tree = trees.edited(spot, head(place), {"a": None, "a/b": blob, "d": blob, "d/g": None})
    listed = trees.names(spot, tree, ["", "a"])
    assert listed == {"": ["a.b", "a", "a0", "d", "run"], "a": ["b"]}
