"""One light process tells what a work tree holds."""

import pytest

from tests.builder import git
from treadle.errors import GitError
from treadle.git import light
from treadle.git.light import Committed


def test_files_of_the_last_commit_are_read_at_once(repo):
    (repo / "ü b.md").write_bytes(b"\0binary\n" * 1000)
    (repo / "folder").mkdir()
    (repo / "folder" / "x").write_text("x")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "More")
    git(repo, "rm", "-q", "--cached", "README.md")
    (repo / "new").write_text("new")
    git(repo, "add", "new")
    assert light.read_head(repo, ["ü b.md", "README.md", "new", "folder", "nothing"]) == {
        "ü b.md": Committed(b"\0binary\n" * 1000, True),
        "README.md": Committed(b"# Project\n", False),
        "new": Committed(None, True),
        "folder": Committed(None, False),
        "nothing": Committed(None, False),
    }


def test_a_repository_without_a_commit_has_no_files(tmp_path):
    git(tmp_path, "init", "-q")
    assert light.read_head(tmp_path, ["x"]) == {"x": Committed(None, False)}


def test_variables_of_another_repository_do_not_count(repo, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert light.read_head(repo, ["README.md"])["README.md"].is_tracked


def test_what_is_no_repository_is_said(tmp_path):
    with pytest.raises(GitError, match="git cannot read"):
        light.dirty_files(tmp_path)


def test_dirty_files_are_told_one_by_one(repo):
    (repo / "a" / "b").mkdir(parents=True)
    (repo / "a" / "b" / "ü x").write_text("x")
    (repo / "a" / "skip.json").write_text("x")
    git(repo, "mv", "README.md", "moved.md")
    assert sorted(light.dirty_files(repo, ["**/skip.json"])) == ["README.md", "a/b/ü x", "moved.md"]
