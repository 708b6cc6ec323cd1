"""Finding the project from anywhere inside it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builder import git
from treadle.errors import BlockedError, ProjectError
from treadle.project import find_root, find_top, refuse_inside_run


def set_up(folder: Path) -> None:
    (folder / ".treadle").mkdir()
    (folder / ".treadle" / "config.toml").touch()


def test_root_is_found_from_below(repo):
    set_up(repo)
    deep = repo / "a" / "b"
    deep.mkdir(parents=True)
    assert find_root(deep, {}) == repo


def test_config_json_counts_too(repo):
    (repo / ".treadle").mkdir()
    (repo / ".treadle" / "config.json").touch()
    assert find_root(repo, {}) == repo


def test_folder_without_git_is_told_what_helps(tmp_path):
    with pytest.raises(ProjectError, match="not inside a git repository") as caught:
        find_root(tmp_path, {})
    assert caught.value.fix[0] == "git init"


def test_repository_without_setup_is_told_what_helps(repo):
    with pytest.raises(ProjectError, match="not set up") as caught:
        find_root(repo, {})
    assert caught.value.fix == ("treadle init",)


def test_project_around_another_repository_is_not_meant(repo):
    set_up(repo)
    inner = repo / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    with pytest.raises(ProjectError, match="inner is not set up"):
        find_root(inner, {})


def test_stray_git_folder_is_passed_by(repo):
    (repo / "a" / ".git").mkdir(parents=True)
    assert find_top(repo / "a", {}) == repo


def test_linked_worktree_is_a_repository(repo, tmp_path):
    git(repo, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert find_top(tmp_path / "linked", {}) == tmp_path / "linked"


def test_inside_a_run_the_project_is_the_outer_one(repo, tmp_path):
    set_up(repo)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    git(workspace, "init", "-q")
    env = {"TREADLE_RUN": "r1", "TREADLE_PROJECT": str(repo)}
    assert find_root(workspace, env) == repo


def test_writing_inside_a_run_is_refused():
    refuse_inside_run({})
    with pytest.raises(BlockedError, match="run r1 is working in it") as caught:
        refuse_inside_run({"TREADLE_RUN": "r1"})
    assert (caught.value.code, caught.value.exit_code) == ("inside_run", 3)


def test_finding_the_root_loads_nothing_heavy():
    heavy = {"subprocess", "msgspec", "yaml", "dataclasses", "tempfile", "shutil", "inspect"}
    code = "import sys, treadle.project; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy.isdisjoint(done.stdout.split())


def test_bare_repository_is_told_how_to_get_a_work_tree(tmp_path):
    bare = tmp_path / "it's bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    with pytest.raises(ProjectError, match="bare repository") as caught:
        find_top(bare / "refs", {})
    assert caught.value.code == "bare_repository"
    subprocess.run(caught.value.fix[0], shell=True, check=True, capture_output=True)
    assert find_top(tmp_path / "it's bare-work", {}) == tmp_path / "it's bare-work"
