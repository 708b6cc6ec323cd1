"""A repository is found and read wherever it lies and whatever state it is in."""

import os
import re

import pytest

from tests.builder import git, write_files
from tests.git.support import make
from treadle.errors import GitError, ProjectError
from treadle.git import repo
from treadle.git.repo import dirty_files


@pytest.mark.parametrize("name", ["plain", "with space", "line\nbreak", "dätä-数", "'quo\"te"])
def test_found_from_a_folder_below(tmp_path, name):
    make(tmp_path / name, {"src/lib/a.py": "1\n"})
    found = repo.find(tmp_path / name / "src" / "lib")
    assert found.root == tmp_path / name
    assert found.git_dir == found.common_dir == tmp_path / name / ".git"


@pytest.mark.parametrize("name", ["linked", "line\nbreak"])
def test_linked_worktree_has_its_own_git_dir(tmp_path, name):
    main = make(tmp_path / "main", {"a": "1\n"})
    git(main.root, "worktree", "add", "-q", "-b", "side", str(tmp_path / name))
    found = repo.find(tmp_path / name)
    assert (found.root, found.common_dir) == (tmp_path / name, main.git_dir)
    assert found.git_dir.parent == main.git_dir / "worktrees"
    assert repo.head(found).branch == "side"


def test_git_variables_of_the_caller_do_not_lead_astray(tmp_path, monkeypatch):
    make(tmp_path / "other", {"a": "1\n"})
    wanted = make(tmp_path / "wanted", {"a": "1\n"})
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_WORK_TREE", "/")
    assert repo.find(wanted.root).root == wanted.root
    assert repo.dirty_files(wanted.root) == ()


def test_sha256_repository(tmp_path):
    found = make(tmp_path / "p", {"a": "1\n"}, "--object-format=sha256")
    assert (found.object_format, len(found.null_id)) == ("sha256", 64)
    commit = repo.head(found).commit
    assert commit == git(found.root, "rev-parse", "HEAD").strip()
    assert repo.tree_of(found, commit) == git(found.root, "rev-parse", "HEAD^{tree}").strip()


def test_folder_without_repository_says_git_init(tmp_path):
    with pytest.raises(ProjectError) as error:
        repo.find(tmp_path)
    assert (error.value.code, error.value.fix) == ("no_repository", ("git init",))


def test_bare_repository_is_refused(tmp_path):
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    with pytest.raises(ProjectError) as error:
        repo.find(tmp_path / "bare.git")
    assert error.value.code == "bare_repository"


def test_a_folder_that_only_looks_like_a_repository_is_none(tmp_path):
    """A clone may bring one with a configuration of its own, for whoever stands in there."""
    found = make(tmp_path / "p", {"sub/objects/a": "", "sub/refs/a": "", "sub/HEAD": "ref: refs/x"})
    settings = (
        '[core]\n\trepositoryformatversion = 0\n\tworktree = .\n[filter "x"]\n\tclean = touch ran\n'
    )
    write_files(found.root, {"sub/config": settings, "sub/.gitattributes": "* filter=x\n"})
    for folder in (found.root / "sub", found.root / "sub" / "refs"):
        with pytest.raises(ProjectError) as error:
            repo.find(folder)
        assert error.value.code == "bare_repository"
        with pytest.raises(GitError, match="bare"):
            repo.dirty_files(folder)


def test_inside_git_folder_is_refused(tmp_path):
    found = make(tmp_path / "p", {"a": "1\n"})
    with pytest.raises(ProjectError) as error:
        repo.find(found.git_dir)
    assert error.value.code == "no_work_tree"


@pytest.fixture
def other_git(tmp_path, monkeypatch):
    """Replace git by a program that prints one line."""

    def replace(line):
        program = tmp_path / "bin" / "git"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho '{line}'\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        repo.version.cache_clear()

    yield replace
    repo.version.cache_clear()


def test_old_git_is_refused(tmp_path, other_git):
    other_git("git version 2.37.9 (Apple Git-1)")
    with pytest.raises(ProjectError, match=re.escape("git 2.37.9 is too old")):
        repo.find(tmp_path)


def test_missing_git_is_named(tmp_path, monkeypatch):
    repo.version.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProjectError, match="git is not installed"):
        repo.find(tmp_path)


def test_version_is_read():
    repo.version.cache_clear()
    assert repo.version() >= repo.MIN_VERSION


def test_head_of_a_branch_with_packed_references(tmp_path):
    found = make(tmp_path / "p", {"a": "1\n"})
    git(found.root, "switch", "-q", "-c", "feature/x")
    git(found.root, "pack-refs", "--all")
    commit = git(found.root, "rev-parse", "HEAD").strip()
    assert repo.head(found) == (commit, "feature/x")


def test_head_when_detached(tmp_path):
    found = make(tmp_path / "p", {"a": "1\n"})
    git(found.root, "switch", "-q", "--detach")
    assert repo.head(found) == (git(found.root, "rev-parse", "HEAD").strip(), None)


def test_head_before_the_first_commit(tmp_path):
    git(tmp_path, "init", "-q", "p", "-b", "trunk")
    assert repo.head(repo.find(tmp_path / "p")) == (None, "trunk")


def test_dirty_files_are_named_one_by_one(tmp_path):
    found = make(tmp_path / "p", {"a": "1\n", "b": "1\n", ".gitignore": "*.log\n"})
    write_files(found.root, {"a": "2\n", "new dir/ü\n.txt": "", "x.log": ""})
    git(found.root, "mv", "b", "c")
    assert sorted(repo.dirty_files(found.root)) == ["a", "b", "c", "new dir/ü\n.txt"]


def test_dirty_files_leave_the_index_alone(tmp_path):
    found = make(tmp_path / "p", {"a": "1\n"})
    os.utime(found.root / "a", (1, 1))
    before = (found.git_dir / "index").read_bytes()
    assert repo.dirty_files(found.root) == ()
    assert (found.git_dir / "index").read_bytes() == before


def test_tracked_takes_folders_and_no_patterns(tmp_path):
    found = make(tmp_path / "p", {".treadle/runs/x/run.json": "{}\n", "a*": "1\n", "ab": "1\n"})
    assert repo.tracked(found, [".treadle/runs"]) == (".treadle/runs/x/run.json",)
    assert repo.tracked(found, ["a*", "nothing"]) == ("a*",)


@pytest.mark.parametrize("operation", ["merge", "rebase", "cherry-pick", "revert", "bisect"])
def test_operation_in_progress(tmp_path, operation):
    found = make(tmp_path / "p", {"a": "1\n"})
    assert repo.operation_in_progress(found) is None
    git(found.root, "switch", "-q", "-c", "side")
    git(found.root, "commit", "-q", "-am", "2", "--allow-empty")
    write_files(found.root, {"a": "side\n"})
    git(found.root, "commit", "-q", "-am", "3")
    git(found.root, "switch", "-q", "main")
    write_files(found.root, {"a": "main\n"})
    git(found.root, "commit", "-q", "-am", "4")
    argument = {"revert": "side", "bisect": "start"}.get(operation, "side")
    git(found.root, operation, argument, check=False)
    assert repo.operation_in_progress(found) == operation


def test_what_is_no_repository_is_said(tmp_path):
    with pytest.raises(GitError, match="not a git repository"):
        dirty_files(tmp_path)


def test_dirty_files_are_told_one_by_one(repo):
    (repo / "a" / "b").mkdir(parents=True)
    (repo / "a" / "b" / "ü x").write_text("x")
    (repo / "a" / "skip.json").write_text("x")
    git(repo, "mv", "README.md", "moved.md")
    assert sorted(dirty_files(repo, ["**/skip.json"])) == ["README.md", "a/b/ü x", "moved.md"]
