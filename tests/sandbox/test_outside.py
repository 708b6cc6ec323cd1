"""Changes outside are seen, and what only rights and times tell is told apart."""

import os
import time

import pytest

from treadle.sandbox import outside


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a", "b", "sub/c"):
        (tmp_path / name).write_text(name)
    past = time.time_ns() - 10**10
    for path in (tmp_path / "a", tmp_path / "b", tmp_path / "sub/c", tmp_path / "sub", tmp_path):
        os.utime(path, ns=(past, past))
    return tmp_path


def changes(tree, act):
    before = outside.look((tree,), ())
    act()
    found = outside.compare(before, outside.look((tree,), ()))
    return [[os.path.relpath(path, tree) for path in paths] for paths in found]


ONLY_ABOUT = {
    "rights": lambda tree: (tree / "a").chmod(0o600),
    "old time": lambda tree: os.utime(tree / "a", (1, 1)),
    "time to come": lambda tree: os.utime(tree / "a", (2**31, 2**31)),
    "owner": lambda tree: os.chown(tree / "a", os.getuid(), os.getgid()),
    "attribute": lambda tree: os.setxattr(tree / "a", "user.x", b"y"),
}


@pytest.mark.parametrize("how", ONLY_ABOUT)
def test_what_is_said_about_a_file(tree, how):
    try:
        assert changes(tree, lambda: ONLY_ABOUT[how](tree)) == [[], ["a"]]
    except OSError as error:
        pytest.skip(f"this file system has none: {error}")


def test_rights_of_a_folder(tree):
    assert changes(tree, lambda: (tree / "sub").chmod(0o700)) == [[], ["sub"]]


def rewrite(tree):
    (tree / "b").unlink()
    (tree / "b").write_text("b")


CONTENT = {
    "write": (lambda tree: (tree / "sub/c").write_text("C"), ["sub/c"]),
    "same size": (lambda tree: (tree / "a").write_text("A"), ["a"]),
    "new": (lambda tree: (tree / "sub/new").touch(), ["sub/new"]),
    "gone": (lambda tree: (tree / "a").unlink(), ["a"]),
    "renamed": (lambda tree: (tree / "a").rename(tree / "z"), ["a", "z"]),
    "rewritten": (rewrite, ["b"]),
}


@pytest.mark.parametrize("how", CONTENT)
def test_what_a_file_holds(tree, how):
    act, paths = CONTENT[how]
    assert changes(tree, lambda: act(tree)) == [paths, []]


def test_nothing_happened(tree):
    assert changes(tree, lambda: (tree / "a").read_text()) == [[], []]


def test_of_too_many_files_the_nearest_are_watched(tree, monkeypatch):
    monkeypatch.setattr(outside, "MAX_ENTRIES", 3)
    before = outside.look((tree,), ())
    assert sorted(os.path.relpath(path, tree) for path in before.marks) == [".", "a", "b", "sub"]
    assert not before.is_whole
    (tree / "new").touch()
    (tree / "a").chmod(0o600)
    found = outside.compare(before, outside.look((tree,), ()))
    assert found == outside.Changes((), (str(tree / "a"),))
    assert len(outside.look((), (tree,)).marks) == 5


def test_of_busy_files_only_rights_count(tree):
    before = outside.look((), (), busy=(tree, tree / "sub/c"))
    (tree / "new").touch()
    (tree / "a").write_text("busy")
    os.utime(tree / "b", (1, 1))
    (tree / "sub/c").chmod(0o600)
    found = outside.compare(before, outside.look((), (), busy=(tree, tree / "sub/c")))
    assert found == outside.Changes((), (str(tree / "sub/c"),))
