"""A workspace is a checkout with a .git of its own, and comes back from whatever happens to it."""

import os
import shutil
import subprocess

import pytest

from tests.builder import git, write_files
from tests.git.support import head, make, open_workspace, snapshot, workspace_at
from treadle.errors import GitError
from treadle.git import call, repo, workspace
from treadle.proc import sweep

FILES = {
    "a.txt": "a\n",
    "d/f.txt": "f\n",
    "d/e/g.txt": "g\n",
    "x/y.txt": "y\n",
    ".gitignore": "*.log\nbuild/\n",
}


@pytest.fixture
def place(tmp_path):
    return make(tmp_path / "p", FILES)


@pytest.fixture
def ws(place, tmp_path):
    return open_workspace(place, tmp_path)


def test_files_are_those_of_the_commit(place, ws):
    assert snapshot(ws.path) == snapshot(place.root)
    assert workspace.changes(ws) == ()


@pytest.mark.parametrize("name", ["with space", "line\nbreak", "dätä-数", "quo\"te'"])
def test_any_path_will_do(tmp_path, name):
    place = make(tmp_path / name / "p", FILES)
    ws = open_workspace(place, tmp_path / name)
    write_files(ws.path, {"a.txt": "b\n"})
    assert workspace.changes(ws) == (("a.txt", "modified"),)
    assert git(ws.path, "log", "--format=%s").strip() == "Begin"
    assert git(ws.path, "status", "--porcelain") == " M a.txt\n"


def test_agents_git_sees_branch_tags_history_and_nothing_to_do(place, tmp_path):
    git(place.root, "tag", "light")
    git(place.root, "tag", "-m", "x", "v1/annotated")
    git(place.root, "symbolic-ref", "refs/tags/a-name-for-light", "refs/tags/light")
    (place.common_dir / "refs/tags/cut-off").touch()
    git(place.root, "pack-refs", "--all")
    git(place.root, "tag", "late")
    git(place.root, "switch", "-q", "-c", "feature/thing")
    ws = open_workspace(place, tmp_path)
    assert git(ws.path, "status", "--porcelain", "--branch") == "## feature/thing\n"
    assert git(ws.path, "tag").split() == ["late", "light", "v1/annotated"]
    assert git(ws.path, "describe", "--tags", "--exact-match", "v1/annotated^{}")
    assert git(ws.path, "remote") == ""
    git(ws.path, "fsck", "--strict")


def test_agents_git_works_when_detached(place, tmp_path):
    git(place.root, "switch", "-q", "--detach")
    ws = open_workspace(place, tmp_path)
    assert git(ws.path, "rev-parse", "HEAD").strip() == head(place)
    assert git(ws.path, "status", "--porcelain") == ""


def test_agent_can_commit_and_the_project_never_knows(place, ws):
    before = (git(place.root, "for-each-ref"), git(place.root, "count-objects"))
    write_files(ws.path, {"a.txt": "mine\n"})
    git(ws.path, "commit", "-q", "-am", "by the agent")
    assert (git(place.root, "for-each-ref"), git(place.root, "count-objects")) == before
    assert workspace.changes(ws) == (("a.txt", "modified"),)


@pytest.mark.parametrize("scope", ["--global", "--local"])
def test_agent_can_commit_without_an_identity(place, tmp_path, private_home, scope):
    (private_home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    if scope == "--local":
        git(place.root, "config", "user.email", "me@home")
    ws = open_workspace(place, tmp_path)
    git(ws.path, "commit", "-q", "--allow-empty", "-m", "x")
    assert git(ws.path, "log", "-1", "--format=%an <%ae>").strip() == "treadle <treadle@localhost>"


def test_users_identity_counts_in_the_workspace(ws):
    git(ws.path, "commit", "-q", "--allow-empty", "-m", "x")
    assert git(ws.path, "log", "-1", "--format=%an").strip() == "Test"


def test_sha256_repository(tmp_path):
    place = make(tmp_path / "p", FILES, "--object-format=sha256")
    ws = open_workspace(place, tmp_path)
    assert git(ws.path, "status", "--porcelain") == ""
    assert git(ws.path, "rev-parse", "HEAD").strip() == head(place)


def test_shallow_clone(place, tmp_path):
    git(place.root, "commit", "-q", "--allow-empty", "-m", "two")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{place.root}", "clone")
    ws = open_workspace(repo.find(tmp_path / "clone"), tmp_path)
    assert git(ws.path, "log", "--format=%s").strip() == "two"
    git(ws.path, "fsck", "--strict")


def test_project_that_borrows_objects(place, tmp_path):
    git(tmp_path, "clone", "-q", "--shared", str(place.root), "one")
    git(tmp_path, "clone", "-q", "--shared", "one", "two")
    alternates = tmp_path / "two" / ".git" / "objects" / "info" / "alternates"
    alternates.write_text("../../../one/.git/objects\n")
    ws = open_workspace(repo.find(tmp_path / "two"), tmp_path)
    assert git(ws.path, "log", "--format=%s").strip() == "Begin"


def test_linked_worktree_as_project(place, tmp_path):
    git(place.root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    ws = open_workspace(repo.find(tmp_path / "linked"), tmp_path)
    assert git(ws.path, "status", "--porcelain", "--branch") == "## side\n"
    assert workspace.changes(ws) == ()


def test_submodule_is_an_empty_folder_and_stays_out_of_it(place, tmp_path):
    sub = make(tmp_path / "sub", {"s": "1\n"})
    git(
        place.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(sub.root)
    )
    git(place.root, "commit", "-q", "-m", "sub")
    ws = open_workspace(place, tmp_path)
    assert list((ws.path / "sub").iterdir()) == []
    git(ws.path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    write_files(ws.path, {"sub/s": "2\n", "sub/new": "n\n"})
    git(ws.path / "sub", "commit", "-q", "-am", "inside")
    assert workspace.changes(ws) == ()
    shutil.rmtree(ws.path / "sub")
    assert workspace.changes(ws) == ()


@pytest.mark.parametrize("setting", ["core.autocrlf=true", "core.eol=crlf"])
def test_line_end_settings_of_the_project_hold(tmp_path, setting):
    place = make(tmp_path / "p", {".gitattributes": "* text=auto\n", "a.txt": "1\n2\n"})
    git(place.root, "config", *setting.split("="))
    ws = open_workspace(place, tmp_path)
    assert (ws.path / "a.txt").read_bytes() == b"1\r\n2\r\n"
    os.utime(ws.path / "a.txt", (1, 1))
    assert workspace.changes(ws) == ()
    assert git(ws.path, "status", "--porcelain") == ""


def test_content_filter_of_the_project_runs(tmp_path):
    place = make(tmp_path / "p", {".gitattributes": "*.big filter=up\n"})
    git(place.root, "config", "filter.up.clean", "tr A-Z a-z")
    git(place.root, "config", "filter.up.smudge", "tr a-z A-Z")
    write_files(place.root, {"x.big": "ABC\n"})
    git(place.root, "add", ".")
    git(place.root, "commit", "-q", "-m", "big")
    ws = open_workspace(place, tmp_path)
    assert (ws.path / "x.big").read_text() == "ABC\n"
    os.utime(ws.path / "x.big", (1, 1))
    assert workspace.changes(ws) == ()
    assert git(ws.path, "status", "--porcelain") == ""


def test_sparse_checkout_stays_sparse(place, tmp_path):
    git(place.root, "sparse-checkout", "set", "--cone", "d")
    ws = open_workspace(place, tmp_path)
    assert not (ws.path / "x").exists()
    assert workspace.changes(ws) == ()
    assert git(ws.path, "status", "--porcelain") == ""
    write_files(ws.path, {"x/y.txt": "other\n"})
    assert workspace.changes(ws) == (("x/y.txt", "modified"),)
    workspace.restore(ws, head(place))
    assert workspace.changes(ws) == ()


def test_settings_that_reshape_an_index_do_no_harm(place, tmp_path):
    for key in ("core.splitIndex", "core.untrackedCache", "feature.manyFiles", "index.sparse"):
        git(place.root, "config", key, "true")
    ws = open_workspace(place, tmp_path)
    write_files(ws.path, {"a.txt": "b\n"})
    assert workspace.changes(ws) == (("a.txt", "modified"),)
    assert git(ws.path, "status", "--porcelain") == " M a.txt\n"
    assert not list(place.git_dir.glob("sharedindex*"))


def test_create_leaves_the_users_checkout_alone(place, tmp_path):
    write_files(place.root, {"a.txt": "dirty\n", "staged": "s\n", "x.log": "l\n"})
    git(place.root, "add", "staged")
    before = (snapshot(place.root), (place.git_dir / "index").read_bytes())
    open_workspace(place, tmp_path)
    assert (snapshot(place.root), (place.git_dir / "index").read_bytes()) == before


@pytest.mark.parametrize("left", ["index", "index.commit", ".git", "d", "everything"])
def test_create_finishes_what_was_half_made(place, ws, tmp_path, left):
    targets = {
        "index": ws.index,
        "index.commit": ws.marker,
        ".git": ws.path / ".git",
        "d": ws.path / "d",
        "everything": ws.path,
    }
    target = targets[left]
    target.unlink() if target.is_file() else shutil.rmtree(target)
    ws.index.with_name("index.lock").write_text("left by a killed git")
    again = open_workspace(place, tmp_path)
    assert snapshot(again.path) == snapshot(place.root)
    assert git(again.path, "status", "--porcelain") == ""


def test_create_replaces_a_torn_index_and_a_link(place, ws, tmp_path):
    ws.index.write_bytes(ws.index.read_bytes()[:100])
    shutil.rmtree(ws.path)
    (tmp_path / "outside").mkdir()
    ws.path.symlink_to(tmp_path / "outside")
    again = open_workspace(place, tmp_path)
    assert not again.path.is_symlink()
    assert (snapshot(again.path), snapshot(tmp_path / "outside")) == (snapshot(place.root), {})


def test_torn_index_is_made_anew(place, ws):
    ws.index.write_bytes(ws.index.read_bytes()[:100])
    write_files(ws.path, {"a.txt": "agent\n"})
    workspace.restore(ws, head(place))
    assert snapshot(ws.path) == snapshot(place.root)


def test_index_from_before_a_power_loss_is_not_trusted(place, ws):
    commit, _, _ = ws.marker.read_text().partition(" ")
    ws.marker.write_text(f"{commit} another-boot")
    assert workspace.commit_of(ws) is None
    workspace.restore(ws, commit)
    assert workspace.commit_of(ws) == commit


def test_create_undoes_stray_files_but_keeps_ignored_ones(place, ws, tmp_path):
    write_files(ws.path, {"a.txt": "changed\n", "stray": "s\n", "build/out": "o\n", "x.log": "l\n"})
    again = open_workspace(place, tmp_path)
    expected = snapshot(place.root) | {"build/out": b"o\n", "x.log": b"l\n"}
    assert snapshot(again.path) == expected


def test_create_while_an_orphaned_git_still_writes(place, ws, tmp_path):
    """A killed treadle may leave its git behind, holding the lock."""
    ws.marker.unlink()
    lock = ws.index.with_name("index.lock")
    lock.write_text("")
    env = os.environ | {sweep.MARKER: call.mark_of(lock)}
    orphan = subprocess.Popen(["sleep", "60"], env=env)
    assert open_workspace(place, tmp_path).path == ws.path
    assert orphan.wait(120) == -9


def test_follow_brings_files_to_the_next_commit(place, ws):
    write_files(place.root, {"a.txt": "new\n", "n/m.txt": "n\n"})
    (place.root / "x" / "y.txt").unlink()
    git(place.root, "add", "-A")
    git(place.root, "commit", "-q", "-m", "next")
    write_files(ws.path, {"x.log": "kept\n"})
    workspace.follow(ws, head(place))
    assert snapshot(ws.path) == snapshot(place.root) | {"x.log": b"kept\n"}
    assert workspace.commit_of(ws) == head(place)
    assert git(ws.path, "status", "--porcelain") == ""
    assert git(ws.path, "log", "--format=%s").split() == ["next", "Begin"]


@pytest.mark.parametrize("trouble", ["edited", "stranger", "link", "no marker", "touched"])
def test_follow_arrives_whatever_is_in_the_way(place, ws, tmp_path, trouble):
    write_files(place.root, {"a.txt": "new\n", "n/m.txt": "n\n"})
    git(place.root, "add", "-A")
    git(place.root, "commit", "-q", "-m", "next")
    (tmp_path / "outside").mkdir()
    if trouble == "edited":
        write_files(ws.path, {"a.txt": "agent\n"})
    elif trouble == "stranger":
        write_files(ws.path, {"n/m.txt": "agent\n"})
    elif trouble == "link":
        (ws.path / "n").symlink_to(tmp_path / "outside")
    elif trouble == "no marker":
        ws.marker.unlink()
    else:
        os.utime(ws.path / "a.txt", (1, 1))
    workspace.follow(ws, head(place))
    assert snapshot(ws.path) == snapshot(place.root)
    assert list((tmp_path / "outside").iterdir()) == []


def test_remove_leaves_nothing(ws):
    (ws.path / "d").chmod(0)
    workspace.remove(ws)
    assert list(ws.path.parent.glob("ws*")) == []
    assert not ws.index.parent.exists()


def test_folder_that_cannot_be_made_is_named(place, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GitError, match="file/ws cannot be made: Not a directory"):
        workspace_at(place, tmp_path / "file" / "ws", tmp_path / "i" / "index", "HEAD")


def test_missing_commit_is_an_error_that_names_it(place, tmp_path):
    with pytest.raises(GitError, match="1" * 40):
        workspace_at(place, tmp_path / "ws", tmp_path / "i" / "index", "1" * 40)
