"""Whatever an agent did, the files come back, and nothing outside is touched."""

import os
import shutil
import socket
import subprocess
import sys

import pytest

from tests.builder import git, write_files
from tests.git.support import head, make, open_workspace, snapshot
from treadle.git import workspace

FILES = {
    "a.txt": "a\n",
    "d/f.txt": "f\n",
    "d/e/g.txt": "g\n",
    "run.sh": "#!/bin/sh\n",
    ".gitignore": "*.log\nbuild/\n",
}


@pytest.fixture
def place(tmp_path):
    place = make(tmp_path / "p", FILES)
    (place.root / "run.sh").chmod(0o755)
    (place.root / "link").symlink_to("a.txt")
    git(place.root, "add", ".")
    git(place.root, "commit", "-q", "-m", "more")
    return place


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    write_files(folder, {"f.txt": "mine\n", "e/g.txt": "mine\n", "secret": "s\n"})
    return folder


def edit(root, outside):
    write_files(root, {"a.txt": "changed\n", "new/x": "n\n"})


def delete(root, outside):
    shutil.rmtree(root / "d")
    (root / "a.txt").unlink()


def change_modes(root, outside):
    (root / "run.sh").chmod(0o644)
    (root / "a.txt").chmod(0o755)


def retarget(root, outside):
    (root / "link").unlink()
    (root / "link").symlink_to(outside / "secret")


def link_for_file(root, outside):
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to(outside / "secret")


def link_for_folder(root, outside):
    shutil.rmtree(root / "d")
    (root / "d").symlink_to(outside)


def inner_link_for_folder(root, outside):
    shutil.rmtree(root / "d" / "e")
    (root / "d" / "e").symlink_to(outside / "e")


def ignored_link_for_folder(root, outside):
    shutil.rmtree(root / "d")
    (root / "d").symlink_to(outside)
    write_files(root, {".gitignore": "d\n"})


def link_among_new_files(root, outside):
    (root / "new").mkdir()
    (root / "new" / "link").symlink_to(outside)


def file_for_folder(root, outside):
    shutil.rmtree(root / "d")
    write_files(root, {"d": "file\n"})


def folder_for_file(root, outside):
    (root / "a.txt").unlink()
    write_files(root, {"a.txt/deep/x": "x\n"})


def hard_link(root, outside):
    (root / "a.txt").unlink()
    (root / "a.txt").hardlink_to(outside / "secret")


def special_files(root, outside):
    (root / "a.txt").unlink()
    os.mkfifo(root / "a.txt")
    (root / "run.sh").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "run.sh"))


def nested_repositories(root, outside):
    for name in ("n", "d/inner", "build/cache"):
        git(root, "init", "-q", name)
    write_files(root, {"n/x": "1\n", "d/inner/y": "1\n", "n/.git/hooks/x": "", "build/cache/z": ""})


def repository_as_file(root, outside):
    (root / "a.txt").unlink()
    git(root, "init", "-q", "a.txt")


def hidden_by_new_ignore_rules(root, outside):
    write_files(
        root, {".gitignore": "*\n", "hidden/evil": "x\n", "d/.gitignore": "evil\n", "d/evil": ""}
    )


def names_from_hell(root, outside):
    write_files(root, {"-rf": "", "a\nb": "", " space ": "", "'; rm -rf *": "", "*": ""})
    (root / os.fsdecode(b"\xff\xfe")).write_text("")


def own_git_gone(root, outside):
    shutil.rmtree(root / ".git")
    (root / ".git").symlink_to(outside)


def immutable_looking(root, outside):
    write_files(root, {"d/new": "n\n", "d/f.txt": "changed\n"})
    for path in (root / "d" / "e", root / "d", root / "a.txt"):
        path.chmod(0)


TRICKS = [
    edit,
    delete,
    change_modes,
    retarget,
    link_for_file,
    link_for_folder,
    inner_link_for_folder,
    ignored_link_for_folder,
    link_among_new_files,
    file_for_folder,
    folder_for_file,
    hard_link,
    special_files,
    nested_repositories,
    repository_as_file,
    hidden_by_new_ignore_rules,
    names_from_hell,
    own_git_gone,
    immutable_looking,
]


@pytest.mark.parametrize("trick", TRICKS)
def test_files_come_back(place, tmp_path, outside, trick, monkeypatch):
    ws = open_workspace(place, tmp_path)
    before = snapshot(outside)
    monkeypatch.chdir(ws.path)
    trick(ws.path, outside)
    workspace.restore(ws, head(place))
    kept = {"build/cache/z": b""} if trick is nested_repositories else {}
    found = {k: v for k, v in snapshot(ws.path).items() if ".git/" not in k}
    assert found == snapshot(place.root) | kept
    assert (snapshot(outside), workspace.changes(ws)) == (before, ())
    assert git(ws.path, "status", "--porcelain") == ""


def test_restore_says_what_differed(place, tmp_path):
    ws = open_workspace(place, tmp_path)
    write_files(ws.path, {"a.txt": "b\n", "n": ""})
    assert set(workspace.restore(ws, head(place))) == {("a.txt", "modified"), ("n", "added")}
    assert workspace.restore(ws, head(place)) == ()


def test_ignored_files_stay(place, tmp_path):
    ws = open_workspace(place, tmp_path)
    write_files(ws.path, {"build/out.bin": "b\n", "d/x.log": "l\n", "a.txt": "b\n"})
    workspace.restore(ws, head(place))
    assert (ws.path / "build" / "out.bin").exists()
    assert (ws.path / "d" / "x.log").exists()


def test_restore_to_another_commit(place, tmp_path):
    ws = open_workspace(place, tmp_path)
    git(place.root, "rm", "-q", "-r", "d")
    write_files(place.root, {"later": "l\n"})
    git(place.root, "add", ".")
    git(place.root, "commit", "-q", "-m", "later")
    write_files(ws.path, {"later": "agent\n", "d/f.txt": "agent\n"})
    workspace.restore(ws, head(place))
    assert snapshot(ws.path) == snapshot(place.root)


def test_planted_hooks_and_settings_of_the_agents_git_go(place, tmp_path):
    ws = open_workspace(place, tmp_path)
    write_files(
        ws.path, {".git/hooks/pre-commit": "x", ".git/info/attributes": "* filter=x\n", "n": ""}
    )
    git(ws.path, "config", "core.pager", "evil")
    workspace.restore(ws, head(place))
    assert not (ws.path / ".git" / "hooks").exists()
    assert not (ws.path / ".git" / "info" / "attributes").exists()
    assert git(ws.path, "config", "--local", "core.pager", check=False) == ""


WITHOUT_RIGHTS = """
import ctypes, os, sys
if len(sys.argv) == 2:  # root would ignore the missing rights: give that up, then start again
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, "-c", os.environ["CODE"], sys.argv[1], "again"])
from pathlib import Path
from tests.git import test_restore
from tests.builder import write_files
from tests.git.support import harvest, head, make, open_workspace, snapshot
from treadle.git import workspace
root = Path(sys.argv[1])
place = make(root / "p", test_restore.FILES)
ws = open_workspace(place, root)
write_files(ws.path, {"d/new": "n", "d/e/g.txt": "changed", "u/v/w": "x", "a.txt": "b"})
for name in ("d/e", "d", "u/v", "u", "a.txt", "run.sh"):
    (ws.path / name).chmod(0)
print(sorted(change.path for change in workspace.changes(ws)))
(ws.path / "d").chmod(0o500)
(ws.path / "u").chmod(0o500)
workspace.restore(ws, head(place))
assert snapshot(ws.path) == snapshot(place.root), snapshot(ws.path)
write_files(ws.path, {"q/r": "x", "a.txt": "c"})
(ws.path / "q/r").chmod(0)
(ws.path / "q").chmod(0o600)
_, judged = harvest(ws, root / "scratch")
assert [change.path for change in judged.files] == ["a.txt", "q/r"]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="gives up capabilities the Linux way")
def test_folders_without_rights_are_opened_by_their_owner(tmp_path):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "CODE": WITHOUT_RIGHTS}
    argv = [sys.executable, "-c", WITHOUT_RIGHTS, str(tmp_path)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['a.txt', 'd/e/g.txt', 'd/new', 'run.sh', 'u/v/w']"
