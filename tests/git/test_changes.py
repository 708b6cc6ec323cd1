"""One call of git lists what differs, however hostile the workspace looks."""

import os
import time

import pytest

from tests.builder import git, write_files
from tests.git.support import head, make, open_workspace
from treadle.git import workspace

FILES = {"a.txt": "a\n", "d/f.txt": "f\n", "d/g.txt": "g\n", ".gitignore": "*.log\nbuild/\n"}


@pytest.fixture
def place(tmp_path):
    return make(tmp_path / "p", FILES)


@pytest.fixture
def ws(place, tmp_path):
    return open_workspace(place, tmp_path)


def listed(ws) -> set[tuple[str, str]]:
    return set(workspace.changes(ws))


def test_every_kind_of_change(ws):
    write_files(ws.path, {"a.txt": "b\n", "new/x y.txt": "n\n", "d/ü\n.txt": "u\n", "t.log": "l\n"})
    (ws.path / "d" / "f.txt").unlink()
    (ws.path / "d" / "g.txt").unlink()
    (ws.path / "d" / "g.txt").symlink_to("f.txt")
    assert listed(ws) == {
        ("a.txt", "modified"),
        ("new/x y.txt", "added"),
        ("d/ü\n.txt", "added"),
        ("d/f.txt", "deleted"),
        ("d/g.txt", "typechange"),
    }


def test_names_that_are_not_utf_8(ws):
    (ws.path / os.fsdecode(b"caf\xe9")).write_text("x")
    assert listed(ws) == {("caf\udce9", "added")}


def test_mode_counts(ws):
    (ws.path / "a.txt").chmod(0o755)
    assert listed(ws) == {("a.txt", "modified")}


def test_edit_of_the_same_size_in_the_same_instant(place, tmp_path):
    for number in range(10):
        ws = open_workspace(place, tmp_path / str(number))
        write_files(ws.path, {"a.txt": "b\n"})
        assert listed(ws) == {("a.txt", "modified")}


def test_edit_with_the_old_time_put_back(ws):
    git(ws.repo.root, "config", "core.trustctime", "false")
    time.sleep(1.1)
    assert listed(ws) == set()
    state = (ws.path / "a.txt").stat()
    write_files(ws.path, {"a.txt": "b\n"})
    os.utime(ws.path / "a.txt", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert listed(ws) == {("a.txt", "modified")}


def test_touched_files_are_not_changes(ws):
    os.utime(ws.path / "a.txt", (1, 1))
    assert listed(ws) == set()


def test_users_head_does_not_matter(place, ws):
    git(place.root, "rm", "-q", "-r", "d")
    git(place.root, "commit", "-q", "-m", "the user went on")
    write_files(ws.path, {"d/f.txt": "agent\n"})
    assert listed(ws) == {("d/f.txt", "modified")}


def test_users_state_does_not_matter(place, ws):
    write_files(place.root, {"a.txt": "dirty\n", "staged": "s\n"})
    git(place.root, "add", "staged")
    (place.git_dir / "MERGE_HEAD").write_text("0" * 40)
    git(place.root, "config", "status.showUntrackedFiles", "no")
    git(place.root, "config", "status.showStash", "true")
    write_files(ws.path, {"n": "n\n"})
    assert listed(ws) == {("n", "added")}


def test_agents_git_does_not_matter(ws):
    write_files(ws.path, {"n": "n\n", ".git/info/exclude": "n\n"})
    git(ws.path, "add", "-f", "n")
    git(ws.path, "update-index", "--assume-unchanged", "a.txt")
    git(ws.path, "commit", "-q", "-m", "x")
    write_files(ws.path, {"a.txt": "b\n"})
    assert listed(ws) == {("n", "added"), ("a.txt", "modified")}


def test_nested_repository_is_one_change(ws):
    git(ws.path, "init", "-q", "inner")
    write_files(ws.path, {"inner/x": "1\n"})
    assert listed(ws) == {("inner/", "repository")}


def test_git_folder_below_a_tracked_one_hides_nothing(ws):
    git(ws.path, "init", "-q", "d")
    write_files(ws.path, {"d/f.txt": "changed\n", "d/new": "n\n"})
    assert listed(ws) == {("d/f.txt", "modified"), ("d/new", "added")}


@pytest.mark.parametrize("content", ["gitdir: /nowhere", "not a pointer", ""])
def test_bogus_git_files_hide_nothing(ws, content):
    write_files(ws.path, {"inner/.git": content, "inner/x": "1\n"})
    assert listed(ws) == {("inner/x", "added")}


def test_folder_replaced_by_a_link_is_not_followed(ws, tmp_path):
    write_files(tmp_path, {"outside/f.txt": "f\n", "outside/g.txt": "g\n"})
    for name in ("f.txt", "g.txt"):
        (ws.path / "d" / name).unlink()
    (ws.path / "d").rmdir()
    (ws.path / "d").symlink_to(tmp_path / "outside")
    assert listed(ws) == {("d", "added"), ("d/f.txt", "deleted"), ("d/g.txt", "deleted")}


def test_pipe_in_place_of_a_file_does_not_hang(ws):
    (ws.path / "a.txt").unlink()
    os.mkfifo(ws.path / "a.txt")
    os.mkfifo(ws.path / "pipe")
    found = workspace.survey(ws)
    assert found.changes == (("a.txt", "deleted"),)
    assert found.special == ("a.txt", "pipe")


def test_folder_too_deep_for_git_is_one_change(ws):
    folder = os.open(ws.path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deep", dir_fd=folder)
        inner = os.open("deep", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    assert listed(ws) == {("/".join(["deep"] * 64), "folder")}
    workspace.restore(ws, head(ws.repo))
    assert not (ws.path / "deep").exists()


def test_ignored_files_are_listed_by_folder(ws):
    write_files(ws.path, {"build/a": "", "build/deep/b": "", "x.log": "", "d/y.log": "", "n": ""})
    found = workspace.survey(ws)
    assert set(found.ignored) == {"build/", "x.log", "d/y.log"}
    assert found.changes == (("n", "added"),)


def test_unmerged_files_count_and_staged_ones_do_not():
    listing = b"UU some path\0M  staged\0"
    assert workspace.parse(listing).changes == (("some path", "modified"),)
