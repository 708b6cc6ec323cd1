"""What would make git wait or read for ever is gone before git looks."""

import os
import socket

import pytest

from tests.builder import git
from tests.git.support import head, make, open_workspace, workspace_at
from treadle.git import build, confined, repo, workspace
from treadle.proc.keeper import Keeper


@pytest.fixture
def ws(tmp_path):
    files = {"a.txt": "a\n", "d/f.txt": "f\n", ".gitignore": "cache/\n*.sock\n"}
    return open_workspace(make(tmp_path / "p", files), tmp_path)


def pipe(path):
    os.mkfifo(path)


def closed_pipe(path):
    os.mkfifo(path, 0)


def listener(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def device(path):
    os.mknod(path, 0o20666, os.makedev(1, 5))


def endless_link(path):
    path.symlink_to("/dev/zero")


def link_to_a_pipe(path):
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def sparse(path):
    with path.open("wb") as handle:
        handle.truncate(1 << 40)


NAMES = (".gitattributes", ".gitignore", ".gitmodules", ".mailmap", "d/.gitattributes", "plain")
MAKERS = (pipe, closed_pipe, listener, device)
CASES = [(make, name) for make in MAKERS for name in NAMES]
CASES += [(make, name) for make in (endless_link, link_to_a_pipe, sparse) for name in NAMES[:5]]


@pytest.mark.parametrize(("make_it", "name"), CASES)
def test_special_file_is_named_and_gone(ws, tmp_path, make_it, name):
    path = ws.path / name
    path.unlink(missing_ok=True)
    try:
        make_it(path)
    except PermissionError:
        pytest.skip("NOT ROOT HERE: no device can be made")
    found = workspace.survey(ws)
    assert name in found.special
    assert not os.path.lexists(path)
    build.from_edits(ws, head(ws.repo), tmp_path / "s", found.changes)
    assert workspace.restore(ws, head(ws.repo)) is not None


@pytest.mark.parametrize("where", ["inner/.git/HEAD", "inner/.git/config", "inner/.git"])
def test_pipe_in_a_repository_of_the_agent(ws, where):
    path = ws.path / where
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert workspace.survey(ws).special == (where,)


def test_what_the_project_ignores_goes_without_a_word(ws):
    (ws.path / "cache").mkdir()
    os.mkfifo(ws.path / "cache" / "pipe")
    listener(ws.path / "server.sock")
    assert workspace.survey(ws).special == ()
    assert not (ws.path / "server.sock").exists()


def test_pipe_that_came_before_a_restore_or_a_diff(ws, tmp_path):
    (ws.path / "a.txt").write_text("changed\n")
    os.mkfifo(ws.path / ".gitattributes")
    build.write_patch(ws, head(ws.repo), tmp_path / "kept.diff")
    os.mkfifo(ws.path / ".gitattributes")
    workspace.restore(ws, head(ws.repo))
    assert (ws.path / "a.txt").read_text() == "a\n"


def test_pipe_behind_a_closed_folder_is_found(ws):
    os.mkfifo(ws.path / "d" / ".gitignore")
    (ws.path / "d").chmod(0)
    assert workspace.survey(ws).special == ("d/.gitignore",)


def test_ordinary_settings_stay(ws):
    (ws.path / "d" / ".gitignore").write_text("x\n")
    (ws.path / "d" / ".gitattributes").symlink_to("../a.txt")
    assert confined.clear_special(ws.path) == ()


# A clean filter whose first call kills the process that watches git.
SABOTAGE = """[ -e {seen} ] || {{ touch {seen}
kill -9 $(cut -d" " -f4 /proc/$PPID/stat); sleep 60; }}; cat"""


def test_git_is_asked_again_when_its_watcher_was_killed(tmp_path):
    place = make(tmp_path / "p", {"a.txt": "a\n"})
    filter_ = tmp_path / "filter.sh"
    filter_.write_text(SABOTAGE.format(seen=tmp_path / "seen"))
    git(place.root, "config", "--global", "filter.f.clean", f"sh {filter_}")
    (place.root / ".git/info/attributes").write_text("*.txt filter=f\n")
    with Keeper() as keeper:
        runner = confined.Confined(keeper, tmp_path / "io", lambda _: None, lambda env: env)
        ws = workspace_at(place, tmp_path / "ws", tmp_path / "run/index", head(place), runner)
        (tmp_path / "seen").unlink(missing_ok=True)
        (ws.path / "a.txt").write_text("b\n")
        built = build.from_edits(ws, head(place), tmp_path / "s")
        assert (tmp_path / "seen").exists()
    assert built.tree != repo.tree_of(place, head(place))
