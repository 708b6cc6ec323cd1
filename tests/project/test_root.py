"""Finding the project from anywhere inside it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builder import git
from treadle.errors import BlockedError, ProjectError
from treadle.project import find_layout, refuse_inside_run, require_project


def set_up(folder: Path) -> None:
    (folder / ".treadle").mkdir()
    (folder / ".treadle" / "config.toml").touch()


def test_root_is_found_from_below(repo):
    set_up(repo)
    deep = repo / "a" / "b"
    deep.mkdir(parents=True)
    assert require_project(deep, {}).root == repo


def test_config_json_counts_too(repo):
    (repo / ".treadle").mkdir()
    (repo / ".treadle" / "config.json").touch()
    assert require_project(repo, {}).root == repo


def test_folder_without_git_is_told_what_helps(tmp_path):
    with pytest.raises(ProjectError, match="not inside a git repository") as caught:
        require_project(tmp_path, {})
    assert caught.value.fix[0] == "git init"


def test_repository_without_setup_is_told_what_helps(repo):
    with pytest.raises(ProjectError, match="not set up") as caught:
        require_project(repo, {})
    assert caught.value.fix == ("treadle init",)


def test_project_around_another_repository_is_not_meant(repo):
    set_up(repo)
    inner = repo / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    with pytest.raises(ProjectError, match="inner is not set up"):
        require_project(inner, {})


def test_stray_git_folder_is_passed_by(repo):
    (repo / "a" / ".git").mkdir(parents=True)
    assert find_layout(repo / "a", {}).root == repo


def test_linked_worktree_is_a_repository(repo, tmp_path):
    git(repo, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert find_layout(tmp_path / "linked", {}).root == tmp_path / "linked"


def test_inside_a_run_the_project_is_the_outer_one(repo, tmp_path):
    set_up(repo)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    git(workspace, "init", "-q")
    env = {"TREADLE_RUN": "r1", "TREADLE_PROJECT": str(repo)}
    assert require_project(workspace, env).root == repo


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
        find_layout(bare / "refs", {})
    assert caught.value.code == "bare_repository"
    subprocess.run(caught.value.fix[0], shell=True, check=True, capture_output=True)
    assert find_layout(tmp_path / "it's bare-work", {}).root == tmp_path / "it's bare-work"


def linked_to(repo: Path, folder: Path) -> Path:
    git(repo, "worktree", "add", "-q", "-b", "linked", str(folder))
    return folder


def test_work_trees_share_what_treadle_keeps(repo, tmp_path):
    set_up(repo)
    layout = require_project(linked_to(repo, tmp_path / "linked"), {})
    assert (layout.root, layout.shared) == (tmp_path / "linked", repo)
    assert (layout.database, layout.specs) == (
        repo / ".treadle" / "treadle.db",
        tmp_path / "linked" / "specs",
    )
    assert layout.config_files() == [repo / ".treadle" / "config.toml"]
    assert layout.relative(layout.runs / "x") == ".treadle/runs/x"
    assert layout.shown(layout.runs / "x") == str(repo / ".treadle" / "runs" / "x")


def test_a_work_tree_inside_the_main_one(repo):
    set_up(repo)
    layout = require_project(linked_to(repo, repo / "trees" / "one"), {})
    assert (layout.root, layout.shared) == (repo / "trees" / "one", repo)
    assert layout.relative(layout.specs / "a") == "specs/a"


@pytest.mark.parametrize("extension", [False, True])
def test_work_trees_of_a_bare_repository_share_a_folder_in_it(repo, tmp_path, extension):
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(bare))
    if extension:
        git(bare, "config", "extensions.worktreeConfig", "true")
        git(bare, "config", "--worktree", "core.bare", "true")
        git(bare, "config", "--unset", "core.bare")
    found = find_layout(linked_to(bare, tmp_path / "linked"), {})
    assert found.shared == bare / "treadle"


def test_a_work_tree_of_a_submodule_shares_with_the_submodule(repo, tmp_path):
    whole = tmp_path / "whole"
    git(tmp_path, "init", "-q", str(whole))
    git(whole, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repo), "sub")
    assert find_layout(whole / "sub", {}).shared == whole / "sub"
    assert find_layout(linked_to(whole / "sub", tmp_path / "linked"), {}).shared == whole / "sub"


def test_the_nearest_project_is_meant(repo):
    inner = repo / "a" / "b"
    inner.mkdir(parents=True)
    set_up(repo)
    set_up(inner)
    (inner / "c").mkdir()
    assert require_project(inner / "c", {}).root == inner
    assert require_project(repo / "a", {}).root == repo
